"""Every request of the protocol, once for both clients: what is sent, and what its answer becomes."""

from __future__ import annotations

import base64
import os
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Union

from . import results
from .errors import Conflict, InvalidRequest, NotFound

T = TypeVar("T")

Json = dict[str, Any]

Data = Union[str, bytes]

Command = Union[str, Sequence[str]]

# What a stream may be ahead of who reads it, in bytes.
WINDOW = 1 << 20


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and what becomes of its answer."""

    method: str
    params: Mapping[str, object]
    parse: Callable[[Json], T]
    job: str | None = None


# Several requests, of which the next may depend on the answers before.
Steps = Generator[Call[Any], Any, T]


def _nothing(_: Json) -> None:
    return None


def _as_it_is(view: Json) -> Json:
    return view


def new_job_id() -> str:
    """Returns the id of a new job. Ids sort by the time they were made."""
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    millis = int(time.time() * 1000) & 0xFFFFFFFFFFFF
    number = millis << 48 | secrets.randbits(48)
    return "j-" + "".join(digits[number >> 5 * shift & 31] for shift in reversed(range(20)))


def sent(data: Data | None, text: str, encoded: str) -> dict[str, str]:
    """Returns the parameter for text, or the one for bytes."""
    if data is None:
        return {}
    if isinstance(data, str):
        return {text: data}
    return {encoded: base64.b64encode(data).decode()}


# Sandboxes.


def open_sandbox(
    task: str, backend: str | None, image: str | None, mount: str | os.PathLike[str] | None
) -> Call[tuple[str, str, tuple[str, ...]]]:
    params = {
        "task": task,
        "backend": backend,
        "image": image,
        "mount": None if mount is None else os.path.abspath(mount),
    }

    def parse(view: Json) -> tuple[str, str, tuple[str, ...]]:
        return view["task"], view["sandbox"]["backend"], tuple(view["notices"])

    return Call("sandbox.open", params, parse)


def list_sandboxes() -> Call[list[results.SandboxInfo]]:
    def parse(view: Json) -> list[results.SandboxInfo]:
        return [results.SandboxInfo.from_json(one) for one in view["sandboxes"]]

    return Call("sandbox.list", {}, parse)


def touch(task: str) -> Call[None]:
    return Call("sandbox.touch", {"task": task}, _nothing)


def stop(task: str) -> Call[bool]:
    return Call("sandbox.stop", {"task": task}, lambda view: bool(view["was_running"]))


def remove(task: str, files: bool) -> Call[None]:
    return Call("sandbox.remove", {"task": task, "files": files}, _nothing)


def fork(task: str, to: str, snapshot: str | None, stop: bool) -> Call[tuple[str, str]]:
    params = {"task": task, "to": to, "snapshot": snapshot, "stop": stop}
    return Call("sandbox.fork", params, lambda view: (view["task"], view["backend"]))


# Commands and jobs.


def _command(
    task: str,
    command: Command,
    job: str,
    session: str | None,
    workdir: str | None,
    timeout: float | None,
    env: Mapping[str, str] | None,
    stdin: Data | None,
) -> dict[str, object]:
    is_text = isinstance(command, str)
    return {
        "task": task,
        "command": command if is_text else None,
        "argv": None if is_text else [os.fspath(part) for part in command],
        "job": job,
        # `None` has no session, as `none` on the command line.
        "session": "none" if session is None else session,
        "workdir": workdir,
        "timeout": timeout,
        "env": None if env is None else dict(env),
        **sent(stdin, "stdin", "stdin_base64"),
    }


def run(
    task: str,
    command: Command,
    *,
    session: str | None,
    workdir: str | None,
    timeout: float | None,
    env: Mapping[str, str] | None,
    stdin: Data | None,
    job: str | None,
    max_output: int | None = None,
    stream: bool = False,
    stdin_open: bool = False,
) -> Call[results.Result]:
    job = job or new_job_id()
    params = _command(task, command, job, session, workdir, timeout, env, stdin)
    params["max_output"] = max_output
    if stream:
        params.update(stream=True, window=WINDOW, stdin_open=stdin_open)
    return Call("run", params, results.Result.from_json, job)


def start(
    task: str,
    command: Command,
    *,
    session: str | None,
    workdir: str | None,
    timeout: float | None,
    env: Mapping[str, str] | None,
    stdin: Data | None,
    stdin_open: bool | None,
    job: str | None,
) -> Call[results.JobInfo]:
    job = job or new_job_id()
    params = _command(task, command, job, session, workdir, timeout, env, stdin)
    params["stdin_open"] = stdin_open
    return Call("job.start", params, results.JobInfo.from_json, job)


def jobs(task: str, all: bool, limit: int | None) -> Call[list[results.JobInfo]]:
    def parse(view: Json) -> list[results.JobInfo]:
        return [results.JobInfo.from_json(one) for one in view["jobs"]]

    return Call("job.list", {"task": task, "all": all, "limit": limit}, parse)


def logs(
    task: str, job: str, stdout_from: int | None, stderr_from: int | None, max_bytes: int | None
) -> Call[results.Logs]:
    params = {
        "task": task,
        "job": job,
        "stdout_from": stdout_from,
        "stderr_from": stderr_from,
        "max_bytes": max_bytes,
    }
    return Call("job.logs", params, results.Logs.from_json, job)


def follow(task: str, job: str, stdout_from: int, stderr_from: int) -> Call[results.JobInfo]:
    params = {
        "task": task,
        "job": job,
        "stdout_from": stdout_from,
        "stderr_from": stderr_from,
        "window": WINDOW,
    }
    return Call("job.follow", params, results.JobInfo.from_json, job)


def wait(task: str, job: str, timeout: float | None) -> Call[results.JobInfo]:
    params = {"task": task, "job": job, "timeout": timeout}
    return Call("job.wait", params, results.JobInfo.from_json, job)


def kill(task: str, job: str, signal: int | None) -> Call[results.JobInfo]:
    params = {"task": task, "job": job, "signal": signal}
    return Call("job.kill", params, results.JobInfo.from_json, job)


def write_input(task: str, job: str, data: Data, close: bool) -> Call[None]:
    params = {"task": task, "job": job, "close": close, **sent(data, "text", "base64")}
    return Call("job.write", params, _nothing, job)


# Files.


def read_file(task: str, path: str, session: str | None) -> Steps[bytes]:
    # A file that changes while it is read in parts is read again.
    for _ in range(3):
        parts: list[bytes] = []
        versions: set[tuple[object, object]] = set()
        offset, more = 0, True
        while more:
            params = {"task": task, "path": path, "session": session, "offset": offset, "limit": 4 << 20}
            part = yield Call("file.read", params, _as_it_is)
            parts.append(results.bytes_of(part.get("text"), part.get("base64")))
            versions.add((part["file"]["modified_at"], part["file"]["size"]))
            # What reports no size, as in /proc, is one part.
            more = part["more"] and part["next"] > offset
            offset = part["next"]
        if len(parts) == 1 or len(versions) == 1:
            return b"".join(parts)
    raise Conflict(f"{path} changes while it is read", kind="conflict")


def read_range(
    task: str, path: str, session: str | None, offset: int, limit: int
) -> Call[bytes]:
    def parse(view: Json) -> bytes:
        return results.bytes_of(view.get("text"), view.get("base64"))

    params = {"task": task, "path": path, "session": session, "offset": offset, "limit": limit}
    return Call("file.read", params, parse)


def write_file(
    task: str, path: str, session: str | None, data: Data, mode: int | None, new: bool
) -> Call[results.FileInfo]:
    params = {"task": task, "path": path, "session": session, "mode": mode, "new": new}
    params.update(sent(data, "text", "base64"))
    return Call("file.write", params, results.FileInfo.from_json)


def patch(
    task: str, path: str, session: str | None, edits: Sequence[tuple[str, str]], all: bool
) -> Call[int]:
    if not edits:
        raise InvalidRequest("a patch needs at least one edit", kind="invalid")
    changes = [{"old": old, "new": new, "all": all} for old, new in edits]
    params = {"task": task, "path": path, "session": session, "edits": changes}
    return Call("file.patch", params, lambda view: int(view["replaced"]))


def list_directory(task: str, path: str, session: str | None) -> Steps[list[results.Entry]]:
    entries: list[results.Entry] = []
    more = True
    while more:
        params = {"task": task, "path": path, "session": session, "skip": len(entries), "limit": 1000}
        page = yield Call("file.list", params, results.Directory.from_json)
        entries.extend(page.entries)
        more = page.more and len(page.entries) > 0
    return entries


def search(task: str, session: str | None, **query: object) -> Call[results.Matches]:
    params = {"task": task, "session": session, **query}
    return Call("file.search", params, results.Matches.from_json)


def stat(task: str, path: str, session: str | None, link: bool) -> Call[results.FileInfo]:
    params = {"task": task, "path": path, "session": session, "link": link}
    return Call("file.stat", params, results.FileInfo.from_json)


def mkdir(task: str, path: str, session: str | None, mode: int | None) -> Call[None]:
    params = {"task": task, "path": path, "session": session, "mode": mode}
    return Call("file.mkdir", params, _nothing)


def move(task: str, source: str, to: str, session: str | None, overwrite: bool) -> Call[None]:
    params = {"task": task, "from": source, "to": to, "session": session, "overwrite": overwrite}
    return Call("file.move", params, _nothing)


def delete(task: str, path: str, session: str | None, recursive: bool) -> Call[None]:
    params = {"task": task, "path": path, "session": session, "recursive": recursive}
    return Call("file.delete", params, _nothing)


# Snapshots.


def create_snapshot(
    task: str, name: str | None, note: str | None, stop: bool
) -> Call[results.Snapshot]:
    params = {"task": task, "snapshot": name, "note": note, "stop": stop}
    return Call("snapshot.create", params, results.Snapshot.from_json)


def list_snapshots(task: str | None) -> Call[list[results.Snapshot]]:
    def parse(view: Json) -> list[results.Snapshot]:
        return [results.Snapshot.from_json(one) for one in view["snapshots"]]

    return Call("snapshot.list", {"task": task}, parse)


def restore(task: str, snapshot: str, stop: bool) -> Call[results.Snapshot]:
    params = {"task": task, "snapshot": snapshot, "stop": stop}
    parse = results.Snapshot.from_json
    return Call("snapshot.restore", params, lambda view: parse(view["snapshot"]))


def delete_snapshot(task: str, snapshot: str) -> Call[None]:
    return Call("snapshot.delete", {"task": task, "snapshot": snapshot}, _nothing)


def snapshot_name(snapshot: str | results.Snapshot) -> str:
    return snapshot if isinstance(snapshot, str) else snapshot.name


# The board.


def create_task(
    board: str | None,
    author: str | None,
    title: str,
    body: str,
    assignee: str | None,
    parents: Sequence[str],
    priority: int,
    triage: bool,
    needs_review: bool,
    idempotency_key: str | None,
) -> Call[results.Task]:
    params = {
        "board": board,
        "author": author,
        "title": title,
        "body": body,
        "assignee": assignee,
        "parents": list(parents),
        "priority": priority,
        "triage": triage,
        "needs_review": needs_review,
        "idempotency_key": idempotency_key,
    }
    return Call("board.create", params, results.Task.from_json)


def list_tasks(
    board: str | None, status: str | None, assignee: str | None, text: str | None
) -> Steps[list[results.Task]]:
    tasks: list[results.Task] = []
    more = True
    while more:
        params = {
            "board": board,
            "status": status,
            "assignee": assignee,
            "text": text,
            "skip": len(tasks),
            "limit": 1000,
        }
        page = yield Call("board.list", params, _as_it_is)
        tasks.extend(results.Task.from_json(one) for one in page["tasks"])
        more = page["more"]
    return tasks


def show_task(board: str | None, id: str) -> Call[results.TaskDetails]:
    return Call("board.show", {"board": board, "id": id}, results.TaskDetails.from_json)


def comment(board: str | None, author: str | None, id: str, text: str) -> Call[None]:
    params = {"board": board, "author": author, "id": id, "text": text}
    return Call("board.comment", params, _nothing)


def complete(
    board: str | None, author: str | None, id: str, summary: str, result: str | None
) -> Call[results.Task]:
    params = {"board": board, "author": author, "id": id, "summary": summary, "result": result}
    return Call("board.complete", params, results.Task.from_json)


def is_missing(error: BaseException) -> bool:
    """Returns whether a file is not there."""
    return isinstance(error, NotFound) and error.kind == "no_file"
