"""What calls return."""

from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import CommandFailed, CommandTimedOut

__all__ = [
    "Chunk",
    "Comment",
    "Directory",
    "Entry",
    "FileInfo",
    "JobInfo",
    "Logs",
    "Match",
    "Matches",
    "Output",
    "Result",
    "SandboxInfo",
    "Snapshot",
    "Task",
    "TaskDetails",
]

Json = dict[str, Any]

FileKind = Literal["file", "directory", "symlink", "other"]

StreamName = Literal["stdout", "stderr"]


def _time(text: object) -> datetime.datetime | None:
    if not isinstance(text, str):
        return None
    # Python 3.10 reads neither `Z` nor nanoseconds.
    whole, _, fraction = text.removesuffix("Z").partition(".")
    text = f"{whole}.{fraction[:6].ljust(6, '0')}+00:00"
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def bytes_of(text: object, encoded: object) -> bytes:
    """Returns bytes that came as text or, where they are no text, in base64."""
    if isinstance(encoded, str):
        return base64.b64decode(encoded)
    return text.encode() if isinstance(text, str) else b""


@dataclass(frozen=True)
class Result:
    """A command that has ended.

    ``stdout`` and ``stderr`` are text, with a line in place of what was left out; the ``_bytes`` are exact
    unless something was.
    """

    exit_code: int
    stdout: str
    stderr: str
    stdout_bytes: bytes = field(repr=False)
    stderr_bytes: bytes = field(repr=False)
    stdout_omitted: int
    stderr_omitted: int
    timed_out: bool
    cause: str | None
    job: str
    task: str
    cwd: str | None
    session_state: str
    duration: float | None
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def omitted(self) -> int:
        """How many bytes of output were left out."""
        return self.stdout_omitted + self.stderr_omitted

    def check(self) -> Result:
        """Returns this result, or raises :class:`CommandFailed` if the exit code is not 0."""
        if self.ok:
            return self
        last = self.stderr.strip().splitlines()[-1:] or self.stdout.strip().splitlines()[-1:]
        said = f": {last[0][:200]}" if last else ""
        if self.timed_out:
            raise CommandTimedOut(f"the command timed out and was killed{said}", self)
        raise CommandFailed(f"the command ended with exit code {self.exit_code}{said}", self)

    @classmethod
    def from_json(cls, view: Json) -> Result:
        stdout = bytes_of(view["stdout"], view.get("stdout_base64"))
        stderr = bytes_of(view["stderr"], view.get("stderr_base64"))
        duration = view["duration_ms"]
        return cls(
            exit_code=view["exit_code"],
            stdout=view["stdout"],
            stderr=view["stderr"],
            stdout_bytes=stdout,
            stderr_bytes=stderr,
            stdout_omitted=view["stdout_omitted"],
            stderr_omitted=view["stderr_omitted"],
            timed_out=view["cause"] == "timed_out",
            cause=view["cause"],
            job=view["job"],
            task=view["sandbox"]["task"],
            cwd=view["cwd"],
            session_state=view["session_state"],
            duration=None if duration is None else duration / 1000,
            warnings=tuple(view["advice"]),
        )


@dataclass(frozen=True)
class Chunk:
    """A piece of output as it comes: bytes, or how many of them are left out."""

    stream: StreamName
    offset: int
    data: bytes
    omitted: int = 0

    @property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8, such as half a character, is replaced."""
        return self.data.decode("utf-8", "replace")

    @classmethod
    def from_json(cls, event: Json) -> Chunk:
        data = bytes_of(event.get("text"), event.get("base64"))
        return cls(event["stream"], event["from"], data, event.get("omitted", 0))


@dataclass(frozen=True)
class JobInfo:
    """A job."""

    id: str
    task: str
    state: Literal["starting", "running", "ended"]
    exit_code: int | None
    cause: str | None
    signal: int | None
    command: str
    session: str | None
    cwd: str
    background: bool
    pid: int | None
    started_at: datetime.datetime | None
    ended_at: datetime.datetime | None
    stdout_bytes: int
    stderr_bytes: int
    processes: int
    stdin_open: bool

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.state == "ended"

    @classmethod
    def from_json(cls, view: Json) -> JobInfo:
        same = (
            "id task state exit_code cause signal command session cwd background pid "
            "stdout_bytes stderr_bytes processes stdin_open"
        )
        return cls(
            **{name: view[name] for name in same.split()},
            started_at=_time(view["started_at"]),
            ended_at=_time(view["ended_at"]),
        )


@dataclass(frozen=True)
class Output:
    """A part of one stream of a job. ``next`` is where to go on reading."""

    start: int
    next: int
    text: str
    data: bytes = field(repr=False)
    omitted: int

    @classmethod
    def from_json(cls, view: Json) -> Output:
        data = bytes_of(view["text"], view.get("base64"))
        return cls(view["from"], view["next"], view["text"], data, view["omitted"])


@dataclass(frozen=True)
class Logs:
    """What a job has written."""

    job: JobInfo
    stdout: Output
    stderr: Output

    @classmethod
    def from_json(cls, view: Json) -> Logs:
        stdout, stderr = Output.from_json(view["stdout"]), Output.from_json(view["stderr"])
        return cls(JobInfo.from_json(view["job"]), stdout, stderr)


@dataclass(frozen=True)
class FileInfo:
    """A file."""

    path: str
    kind: FileKind
    size: int
    mode: int
    uid: int
    gid: int
    modified_at: datetime.datetime | None
    target: str | None

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"

    @classmethod
    def from_json(cls, view: Json) -> FileInfo:
        same = "path kind size mode uid gid target"
        return cls(
            **{name: view[name] for name in same.split()}, modified_at=_time(view["modified_at"])
        )


@dataclass(frozen=True)
class Entry:
    """An entry of a directory."""

    name: str
    kind: FileKind
    size: int
    mode: int
    modified_at: datetime.datetime | None

    @classmethod
    def from_json(cls, view: Json) -> Entry:
        modified = _time(view["modified_at"])
        return cls(view["name"], view["kind"], view["size"], view["mode"], modified)


@dataclass(frozen=True)
class Directory:
    """A part of a directory, in the order of names."""

    entries: tuple[Entry, ...]
    more: bool

    @classmethod
    def from_json(cls, view: Json) -> Directory:
        return cls(tuple(Entry.from_json(one) for one in view["entries"]), view["more"])


@dataclass(frozen=True)
class Match:
    """A line, or a file, that a search has found."""

    path: str
    line: int | None
    text: str | None
    context: bool

    @classmethod
    def from_json(cls, view: Json) -> Match:
        return cls(view["path"], view["line"], view["text"], view["context"])


@dataclass(frozen=True)
class Matches:
    """What a search has found."""

    matches: tuple[Match, ...]
    more: bool
    files: int
    unreadable: int

    @classmethod
    def from_json(cls, view: Json) -> Matches:
        found = tuple(Match.from_json(one) for one in view["matches"])
        return cls(found, view["more"], view["files"], view["unreadable"])


@dataclass(frozen=True)
class Snapshot:
    """A copy of a sandbox to go back to."""

    task: str
    name: str
    created_at: datetime.datetime | None
    backend: str
    system: bool
    files: int
    bytes: int
    note: str | None

    @classmethod
    def from_json(cls, view: Json) -> Snapshot:
        same = "task name backend system files bytes note"
        return cls(
            **{name: view[name] for name in same.split()}, created_at=_time(view["created_at"])
        )


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox, as listings show it. ``raw`` has all that ``vestal ps --json`` prints."""

    profile: str
    task: str
    backend: str
    state: str
    jobs_running: int
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, view: Json) -> SandboxInfo:
        same = "profile task backend state jobs_running"
        return cls(**{name: view[name] for name in same.split()}, raw=view)


@dataclass(frozen=True)
class Comment:
    """What somebody said about a task."""

    author: str
    body: str


@dataclass(frozen=True)
class Task:
    """A task of the board. ``raw`` has all that ``vestal kanban show --json`` prints of it."""

    id: str
    title: str
    body: str
    status: str
    assignee: str | None
    priority: int
    result: str | None
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, view: Json) -> Task:
        same = "id title body status assignee priority result"
        return cls(**{name: view.get(name) for name in same.split()}, raw=view)  # type: ignore[arg-type]


@dataclass(frozen=True)
class TaskDetails:
    """A task with its comments. ``raw`` has its events, runs and relatives, too."""

    task: Task
    comments: tuple[Comment, ...]
    summary: str | None
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, view: Json) -> TaskDetails:
        comments = tuple(Comment(one["author"], one["body"]) for one in view["comments"])
        return cls(Task.from_json(view["task"]), comments, view.get("latest_summary"), view)
