# Runs a script in a child and carries what it prints and the tool calls it
# makes over this process's own standard streams.
#
# In: a length and the script with its module, as JSON; then the answers to
# tool calls, passed on as they come. Out: pieces, each a kind, a length and
# bytes: "o" and "e" are what the script prints, "c" is what it sends about
# tool calls, "x" is its end.
import json
import os
import selectors
import socket
import struct
import sys
import threading

PIECE = 65536
LAST_PIECES = 64


def read_exactly(fd, size):
    data = b""
    while len(data) < size:
        piece = os.read(fd, min(size - len(data), 1 << 20))
        if not piece:
            os._exit(70)
        data += piece
    return data


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


def send(kind, data):
    write_all(1, struct.pack(">cI", kind, len(data)) + data)


def become_the_script(work, calls, out, err):
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for fd in (null, out, err):
        os.close(fd)
    sys.stdin = open(0, closefd=False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)

    import linecache
    import types

    tools = types.ModuleType("vestal_tools", "The tools of this conversation.")
    tools._socket = calls
    tools._available = frozenset(work["tools"])
    exec(compile(work["module"], "<vestal_tools>", "exec"), tools.__dict__)
    sys.modules["vestal_tools"] = sys.modules["hermes_tools"] = tools

    name, code = "script.py", work["code"]
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    sys.argv = [name]
    try:
        exec(compile(code, name, "exec"), main.__dict__)
    except SystemExit:
        raise
    except BaseException:
        # The shim's own frame is none of the script's business, and only this
        # way of printing knows the script's lines.
        kind, value, trace = sys.exc_info()
        value = value.with_traceback(trace.tb_next)
        if sys.excepthook is sys.__excepthook__:
            import traceback

            traceback.print_exception(kind, value, value.__traceback__)
        else:
            sys.excepthook(kind, value, value.__traceback__)
        sys.exit(1)


def wait_for(child, told):
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        code = 128 + os.WTERMSIG(status)
    else:
        code = os.WEXITSTATUS(status)
    os.write(told, struct.pack(">I", code))


def carry(child, calls, out, err):
    ended, told = os.pipe()
    threading.Thread(target=wait_for, args=(child, told), daemon=True).start()
    sources = selectors.DefaultSelector()
    for fd, kind in ((out, b"o"), (err, b"e"), (calls.fileno(), b"c"), (0, None), (ended, b"x")):
        if kind:
            os.set_blocking(fd, False)
        sources.register(fd, selectors.EVENT_READ, kind)
    code = None
    while code is None:
        for key, _ in sources.select():
            if key.data == b"x":
                code = read_exactly(ended, 4)
            elif move(key.fd, key.data, calls) is False:
                sources.unregister(key.fd)
    # What the script itself has printed is there by now; a process it left
    # behind may go on printing for ever.
    for fd, kind in ((out, b"o"), (err, b"e")):
        for _ in range(LAST_PIECES):
            if not move(fd, kind, calls):
                break
    send(b"x", code)


def move(fd, kind, calls):
    """Moves a piece on: True, None if there is none now, False if none will come."""
    try:
        data = os.read(fd, PIECE)
    except BlockingIOError:
        return None
    except ConnectionError:
        return False
    if not data:
        return False
    if kind:
        send(kind, data)
        return True
    try:
        calls.setblocking(True)
        calls.sendall(data)
        calls.setblocking(False)
    except OSError:
        return False
    return True


def main():
    (size,) = struct.unpack(">I", read_exactly(0, 4))
    work = json.loads(read_exactly(0, size))
    ours, theirs = socket.socketpair()
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    child = os.fork()
    if child == 0:
        ours.close()
        os.close(out)
        os.close(err)
        become_the_script(work, theirs, out_end, err_end)
        return
    theirs.close()
    os.close(out_end)
    os.close(err_end)
    carry(child, ours, out, err)
    os._exit(0)


main()
