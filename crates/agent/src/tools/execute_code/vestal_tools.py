"""The tools of the conversation, for scripts it runs.

Each function returns what the tool came to, as a dict, and raises ToolError
when the call could not be made at all.
"""
import json
import os
import shlex
import struct
import threading
import time

__all__ = [
    "ToolError",
    "json_parse",
    "patch",
    "read_file",
    "retry",
    "search_files",
    "shell_quote",
    "terminal",
    "write_file",
]

_MOST = 8 << 20
_owner = os.getpid()
_lock = threading.Lock()
_broken = False


class ToolError(RuntimeError):
    """A tool call that could not be made."""


def _receive(size):
    data = bytearray()
    while len(data) < size:
        piece = _socket.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise ToolError("the conversation is gone")
        data += piece
    return bytes(data)


def _call(tool, **arguments):
    global _broken
    if tool not in _available:
        raise ToolError(f"{tool} is not available in this conversation")
    if os.getpid() != _owner:
        raise ToolError("tools can only be called from the script's own process")
    arguments = {name: value for name, value in arguments.items() if value is not None}
    request = json.dumps({"tool": tool, "arguments": arguments}).encode()
    if len(request) > _MOST:
        raise ToolError(f"a call of {len(request)} bytes is too large; at most {_MOST}")
    with _lock:
        if _broken:
            raise ToolError("an earlier call was broken off")
        _broken = True
        _socket.sendall(struct.pack(">I", len(request)) + request)
        (size,) = struct.unpack(">I", _receive(4))
        reply = json.loads(_receive(size))
        _broken = False
    if "error" in reply:
        raise ToolError(reply["error"])
    try:
        return json.loads(reply["result"])
    except ValueError:
        return reply["result"]


def read_file(path, offset=1, limit=500):
    """Reads lines of a text file: {"content": ..., "total_lines": ...}."""
    return _call("read_file", path=path, offset=offset, limit=limit)


def write_file(path, content):
    """Makes `content` the content of a file."""
    return _call("write_file", path=path, content=content)


def search_files(
    pattern,
    target="content",
    path=".",
    file_glob=None,
    limit=50,
    offset=0,
    output_mode="content",
    context=0,
):
    """Finds lines by content, or with target="files" files by name."""
    return _call(
        "search_files",
        pattern=pattern,
        target=target,
        path=path,
        file_glob=file_glob,
        limit=limit,
        offset=offset,
        output_mode=output_mode,
        context=context,
    )


def patch(
    path=None, old_string=None, new_string=None, replace_all=False, mode="replace", patch=None
):
    """Replaces text in a file, or applies a patch of several files."""
    return _call(
        "patch",
        path=path,
        old_string=old_string,
        new_string=new_string,
        replace_all=replace_all,
        mode=mode,
        patch=patch,
    )


def terminal(command, timeout=None, workdir=None):
    """Runs a command in the foreground: {"output": ..., "exit_code": ...}."""
    return _call("terminal", command=command, timeout=timeout, workdir=workdir)


def json_parse(text):
    """Parses JSON that may contain raw control characters."""
    return json.loads(text, strict=False)


def shell_quote(text):
    """Quotes text for a shell command."""
    return shlex.quote(text)


def retry(call, max_attempts=3, delay=2):
    """Calls a function until it does not raise, waiting longer each time."""
    for attempt in range(max_attempts):
        try:
            return call()
        except Exception:
            if attempt + 1 >= max_attempts:
                raise
            time.sleep(delay * 2**attempt)
