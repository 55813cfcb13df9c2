"""The client that waits: one call after the other, in any number of threads."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import Any, Generic, TypeVar

from . import _calls as calls
from ._calls import Call, Command, Data, Steps
from ._connection import Connection, Json, Launch, Pending
from ._hub import Hub, shared
from ._stream import Ledger, is_end
from .errors import VestalError
from .results import (
    Chunk,
    Entry,
    FileInfo,
    JobInfo,
    Logs,
    Matches,
    Result,
    SandboxInfo,
    Snapshot,
    Task,
    TaskDetails,
)

__all__ = ["Board", "Client", "Files", "Job", "Sandbox", "Stream"]

T = TypeVar("T")

# Seconds that a cancelled request may take to be answered: until nothing of its command is left.
CANCEL_WITHIN = 10.0


class Client:
    """A process of the program ``vestal``, started at its first use, for any number of sandboxes.

    Nobody has to make one: ``Sandbox.open`` and ``Board`` share one for each profile. It ends with the Python
    process. Foreground commands are killed then; background jobs and sandboxes stay.
    """

    def __init__(
        self,
        *,
        profile: str | None = None,
        home: str | os.PathLike[str] | None = None,
        isolated: bool = False,
        settings: Mapping[str, str] | None = None,
        program: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """``settings`` win over those of the profile (``--set``); ``env`` is the program's environment.

        With ``isolated``, sandboxes whose commands would run on this machine as you are refused.
        """
        self._hub = Hub(
            Launch(
                profile=profile,
                home=None if home is None else os.fspath(home),
                isolated=isolated,
                settings=tuple(sorted((settings or {}).items())),
                program=None if program is None else os.fspath(program),
                environment=None if env is None else tuple(sorted(env.items())),
            )
        )

    @classmethod
    def _shared(cls, profile: str | None, isolated: bool) -> Client:
        client = cls.__new__(cls)
        client._hub = shared(Launch(profile=profile, isolated=isolated))
        return client

    def sandboxes(self) -> list[SandboxInfo]:
        """Lists the sandboxes of the profile."""
        return self._call(calls.list_sandboxes())

    def snapshots(self) -> list[Snapshot]:
        """Lists the snapshots of all sandboxes of the profile."""
        return self._call(calls.list_snapshots(None))

    def close(self) -> None:
        """Ends the process; the next call starts another one."""
        self._hub.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, call: Call[T]) -> T:
        connection = self._hub.connection()
        pending = connection.prepare(call.method, call.params, job=call.job)
        return call.parse(_exchange(connection, pending))

    def _all(self, steps: Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                call = steps.send(self._call(call))
        except StopIteration as end:
            value: T = end.value
            return value


def _exchange(connection: Connection, pending: Pending) -> Any:
    try:
        connection.send(pending)
        return pending.future.result()
    except VestalError:
        raise
    except BaseException:
        # Ctrl-C, which is to leave nothing of the command.
        _cancel(connection, pending)
        raise


def _cancel(connection: Connection, pending: Pending) -> None:
    if not pending.future.done() and connection.cancel(pending):
        try:
            pending.future.exception(CANCEL_WITHIN)
        except FutureTimeout:
            pass


class Sandbox:
    """A durable place where commands run. It outlives this object, and this process.

    ``Sandbox.open`` returns one; the same name finds the same sandbox again.
    """

    def __init__(self, client: Client, task: str, backend: str, notices: Sequence[str] = ()) -> None:
        self._client = client
        self.task = task
        self.backend = backend
        self.notices = tuple(notices)

    def __repr__(self) -> str:
        return f"Sandbox(task={self.task!r}, backend={self.backend!r})"

    @classmethod
    def open(
        cls,
        task: str = "default",
        *,
        backend: str | None = None,
        image: str | None = None,
        mount_cwd: bool = False,
        mount: str | os.PathLike[str] | None = None,
        profile: str | None = None,
        isolated: bool = False,
        client: Client | None = None,
    ) -> Sandbox:
        """Returns the sandbox of a task: attached to, started if it was stopped, made if there is none.

        ``backend`` and ``image`` count when it is made. ``mount`` is a directory of this machine that is its
        workspace, and ``mount_cwd`` the current one; such a sandbox is that directory's own.
        """
        if client is None:
            client = Client._shared(profile, isolated)
        if mount_cwd and mount is None:
            mount = os.getcwd()
        found = client._call(calls.open_sandbox(task, backend, image, mount))
        return cls(client, *found)

    # Commands.

    def run(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        check: bool = False,
        input: Data | None = None,
        env: Mapping[str, str] | None = None,
        session: str | None = "main",
        workdir: str | None = None,
        max_output: int | None = None,
        job: str | None = None,
    ) -> Result:
        """Runs a command and waits for it: shell text, or a program and its arguments.

        The session keeps directory, variables and functions from one command to the next; ``None`` has none.
        After ``timeout`` seconds the command and everything it started are killed, and the exit code is 124.
        With ``check``, another exit code than 0 raises :class:`CommandFailed`. The same ``job`` is never run
        twice: a second call returns the result of the first.
        """
        result = self._client._call(
            calls.run(
                self.task,
                command,
                session=session,
                workdir=workdir,
                timeout=timeout,
                env=env,
                stdin=input,
                job=job,
                max_output=max_output,
            )
        )
        return result.check() if check else result

    def stream(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        input: Data | None = None,
        stdin: bool = False,
        env: Mapping[str, str] | None = None,
        session: str | None = "main",
        workdir: str | None = None,
        job: str | None = None,
    ) -> Stream[Result]:
        """Runs a command and returns its output as it comes. A command whose output is not taken waits.

        With ``stdin``, its standard input stays open for :meth:`Stream.write`.
        """
        call = calls.run(
            self.task,
            command,
            session=session,
            workdir=workdir,
            timeout=timeout,
            env=env,
            stdin=input,
            job=job,
            stream=True,
            stdin_open=stdin,
        )
        return Stream(self._client, self.task, call)

    def start(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        input: Data | None = None,
        stdin: bool | None = None,
        env: Mapping[str, str] | None = None,
        session: str | None = "main",
        workdir: str | None = None,
        job: str | None = None,
    ) -> Job:
        """Starts a command in the background. It outlives this process.

        Its standard input stays open for :meth:`Job.write`, unless ``input`` is all of it.
        """
        started = calls.start(
            self.task,
            command,
            session=session,
            workdir=workdir,
            timeout=timeout,
            env=env,
            stdin=input,
            stdin_open=stdin,
            job=job,
        )
        return Job(self._client, self.task, self._client._call(started).id)

    def job(self, id: str) -> Job:
        """Returns a job by its id, whoever started it."""
        return Job(self._client, self.task, id)

    def jobs(self, *, all: bool = False, limit: int | None = None) -> list[JobInfo]:
        """Lists the jobs of which a process is left or, with ``all``, those that have ended, too; the oldest first."""
        return self._client._call(calls.jobs(self.task, all, limit))

    # Files and copies.

    @property
    def files(self) -> Files:
        """The files of the sandbox."""
        return Files(self._client, self.task)

    def snapshot(
        self, name: str | None = None, *, note: str | None = None, stop: bool = False
    ) -> Snapshot:
        """Keeps a copy. Running jobs are an error, unless ``stop`` ends them."""
        return self._client._call(calls.create_snapshot(self.task, name, note, stop))

    def snapshots(self) -> list[Snapshot]:
        """Lists the snapshots, the oldest first."""
        return self._client._call(calls.list_snapshots(self.task))

    def restore(self, snapshot: str | Snapshot, *, stop: bool = False) -> None:
        """Makes the sandbox what it was when a snapshot was kept. What it is now is lost."""
        self._client._call(calls.restore(self.task, calls.snapshot_name(snapshot), stop))

    def delete_snapshot(self, snapshot: str | Snapshot) -> None:
        """Deletes a snapshot."""
        self._client._call(calls.delete_snapshot(self.task, calls.snapshot_name(snapshot)))

    def fork(
        self, task: str, *, snapshot: str | Snapshot | None = None, stop: bool = False
    ) -> Sandbox:
        """Makes the sandbox of another task as a copy of this one, or of a snapshot of it."""
        name = None if snapshot is None else calls.snapshot_name(snapshot)
        return Sandbox(self._client, *self._client._call(calls.fork(self.task, task, name, stop)))

    # Its life.

    def touch(self) -> None:
        """Keeps it from idling out."""
        self._client._call(calls.touch(self.task))

    def stop(self) -> bool:
        """Stops it: its jobs end, its files stay. Returns whether it ran. Its next use starts it."""
        return self._client._call(calls.stop(self.task))

    def remove(self, *, files: bool = False) -> None:
        """Removes it; workspace, home and snapshots stay, unless ``files``."""
        self._client._call(calls.remove(self.task, files))


R = TypeVar("R", Result, JobInfo)


class Stream(Generic[R]):
    """Output as it comes: an iterator of chunks, and of lines. Leaving it early ends the following; if the
    command is waited for, it is killed."""

    def __init__(self, client: Client, task: str, call: Call[R]) -> None:
        self._client = client
        self._task = task
        self._call: Call[R] = call
        self._events: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._connection = client._hub.connection()
        self._pending = self._connection.prepare(
            call.method, call.params, sink=self._events.put, job=call.job
        )
        self._ledger = Ledger(self._connection, self._pending)
        self._ended = False
        try:
            self._connection.send(self._pending)
        except VestalError:
            raise
        except BaseException:
            self.close()
            raise

    @property
    def job(self) -> str:
        """The id of the job."""
        assert self._call.job is not None
        return self._call.job

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        while not self._ended:
            try:
                event = self._events.get()
            except BaseException:
                self.close()
                raise
            if is_end(event):
                self._ended = True
                # What went wrong is raised, at the latest when there is no more output.
                self._pending.future.result()
                break
            chunk = self._ledger.chunk(event)
            if chunk is not None:
                return chunk
        raise StopIteration

    def lines(self) -> Iterator[str]:
        """Returns the lines of both streams in the order in which they end."""
        for chunk in self:
            yield from self._ledger.lines(chunk)
        yield from self._ledger.last_lines()

    def wait(self) -> R:
        """Passes over all that is still to come, and returns how it ended."""
        for _ in self:
            pass
        return self._call.parse(self._pending.future.result())

    def write(self, data: Data) -> None:
        """Writes to its standard input, as fast as it reads."""
        self._client._call(calls.write_input(self._task, self.job, data, False))

    def close_stdin(self) -> None:
        """Closes its standard input."""
        self._client._call(calls.write_input(self._task, self.job, b"", True))

    def close(self) -> None:
        """Ends the following; a command that is waited for is killed with everything it started."""
        self._ended = True
        _cancel(self._connection, self._pending)

    def __enter__(self) -> Stream[R]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Job:
    """A command in the background, which outlives whoever started it."""

    def __init__(self, client: Client, task: str, id: str) -> None:
        self._client = client
        self.task = task
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id!r}, task={self.task!r})"

    def info(self) -> JobInfo:
        """Returns how it is."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> JobInfo:
        """Waits until it has ended or the time is up: ``ended`` says which."""
        return self._client._call(calls.wait(self.task, self.id, timeout))

    def logs(
        self,
        *,
        stdout_from: int | None = None,
        stderr_from: int | None = None,
        max_bytes: int | None = None,
    ) -> Logs:
        """Returns what it wrote, from offsets on; the newest unless they are given."""
        call = calls.logs(self.task, self.id, stdout_from, stderr_from, max_bytes)
        return self._client._call(call)

    def follow(self, *, stdout_from: int = 0, stderr_from: int = 0) -> Stream[JobInfo]:
        """Returns its output as it comes, until it has ended. The job is never held up by it."""
        call = calls.follow(self.task, self.id, stdout_from, stderr_from)
        return Stream(self._client, self.task, call)

    def kill(self, signal: int | None = None) -> JobInfo:
        """Kills everything it started, or sends its foreground processes a signal."""
        return self._client._call(calls.kill(self.task, self.id, signal))

    def write(self, data: Data, *, close: bool = False) -> None:
        """Writes to its standard input, as fast as it reads."""
        self._client._call(calls.write_input(self.task, self.id, data, close))

    def close_stdin(self) -> None:
        """Closes its standard input."""
        self.write(b"", close=True)


class Files:
    """Files of a sandbox. Relative paths begin at its workspace, or at the directory of a session."""

    def __init__(self, client: Client, task: str, session: str | None = None) -> None:
        self._client = client
        self._task = task
        self._session = session

    def in_session(self, session: str) -> Files:
        """Returns the same files, with relative paths from the directory of a session."""
        return Files(self._client, self._task, session)

    def read(self, path: str) -> bytes:
        """Returns the content of a file."""
        return self._client._all(calls.read_file(self._task, path, self._session))

    def read_text(self, path: str, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Returns the content of a file as text."""
        return self.read(path).decode(encoding, errors)

    def read_range(self, path: str, offset: int, limit: int) -> bytes:
        """Returns at most so many bytes of a file (4 MiB at most)."""
        call = calls.read_range(self._task, path, self._session, offset, limit)
        return self._client._call(call)

    def write(
        self, path: str, data: Data, *, mode: int | None = None, new: bool = False
    ) -> FileInfo:
        """Makes data the whole content of a file, in one step; missing directories are made.

        With ``new``, a file that is there already is an error. At most about 6 MiB.
        """
        call = calls.write_file(self._task, path, self._session, data, mode, new)
        return self._client._call(call)

    def patch(self, path: str, *edits: tuple[str, str], all: bool = False) -> int:
        """Replaces pieces of a file, ``(old, new)`` each, all or none. Returns how many.

        Each ``old`` must occur once, unless ``all``.
        """
        return self._client._call(calls.patch(self._task, path, self._session, edits, all))

    def list(self, path: str = ".") -> list[Entry]:
        """Lists a directory in the order of names, hidden files too."""
        return self._client._all(calls.list_directory(self._task, path, self._session))

    def search(
        self,
        regex: str | None = None,
        *,
        glob: str | None = None,
        path: str | None = None,
        ignore_case: bool = False,
        hidden: bool = False,
        ignored: bool = False,
        context: int = 0,
        skip: int = 0,
        limit: int | None = None,
    ) -> Matches:
        """Finds lines by a regular expression, or files by a glob."""
        call = calls.search(
            self._task,
            self._session,
            regex=regex,
            glob=glob,
            path=path,
            ignore_case=ignore_case,
            hidden=hidden,
            ignored=ignored,
            context=context,
            skip=skip,
            limit=limit,
        )
        return self._client._call(call)

    def stat(self, path: str, *, follow_symlinks: bool = True) -> FileInfo:
        """Describes a file."""
        return self._client._call(
            calls.stat(self._task, path, self._session, not follow_symlinks)
        )

    def exists(self, path: str) -> bool:
        """Returns whether there is such a file or directory."""
        try:
            self.stat(path)
        except VestalError as error:
            if calls.is_missing(error):
                return False
            raise
        return True

    def mkdir(self, path: str, *, mode: int | None = None) -> None:
        """Makes a directory with those above it; one that is there is left alone."""
        self._client._call(calls.mkdir(self._task, path, self._session, mode))

    def move(self, source: str, to: str, *, overwrite: bool = False) -> None:
        """Renames a file or a directory."""
        self._client._call(calls.move(self._task, source, to, self._session, overwrite))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Deletes a file, or a directory; of a symbolic link the link."""
        self._client._call(calls.delete(self._task, path, self._session, recursive))


class Board:
    """A board of tasks that people and agents share."""

    def __init__(
        self,
        name: str | None = None,
        *,
        profile: str | None = None,
        author: str | None = None,
        client: Client | None = None,
    ) -> None:
        """Without a name it is the current board. ``author`` is in whose name changes are made."""
        self._client = Client._shared(profile, False) if client is None else client
        self._name = name
        self._author = author

    def create(
        self,
        title: str,
        body: str = "",
        *,
        assignee: str | None = None,
        parents: Sequence[str] = (),
        priority: int = 0,
        triage: bool = False,
        needs_review: bool = False,
        idempotency_key: str | None = None,
    ) -> Task:
        """Creates a task. One with an assignee is begun by an agent of that profile.

        With the same ``idempotency_key`` the same task is returned, and none is made.
        """
        call = calls.create_task(
            self._name,
            self._author,
            title,
            body,
            assignee,
            parents,
            priority,
            triage,
            needs_review,
            idempotency_key,
        )
        return self._client._call(call)

    def list(
        self,
        *,
        status: str | None = None,
        assignee: str | None = None,
        text: str | None = None,
    ) -> list[Task]:
        """Lists tasks by status and then by urgency; archived ones only if asked for."""
        return self._client._all(calls.list_tasks(self._name, status, assignee, text))

    def show(self, id: str) -> TaskDetails:
        """Returns a task with its comments."""
        return self._client._call(calls.show_task(self._name, id))

    def comment(self, id: str, text: str) -> None:
        """Adds a comment to a task."""
        self._client._call(calls.comment(self._name, self._author, id, text))

    def complete(self, id: str, summary: str, *, result: str | None = None) -> Task:
        """Marks a task as done; one that needs a review goes to it."""
        return self._client._call(calls.complete(self._name, self._author, id, summary, result))
