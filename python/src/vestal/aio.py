"""The client for asyncio: as :mod:`vestal`, with ``await``.

>>> sandbox = await Sandbox.open("docs")
>>> (await sandbox.run("echo hello")).stdout
'hello\\n'

It shares its process with the other client. When the task that waits for a command is cancelled, the command
is killed with everything it started.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from . import _calls as calls
from . import client as waiting
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


class Client:
    """A process of the program ``vestal``, as :class:`vestal.Client`."""

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
        self._hub = waiting.Client(
            profile=profile,
            home=home,
            isolated=isolated,
            settings=settings,
            program=program,
            env=env,
        )._hub

    @classmethod
    def _shared(cls, profile: str | None, isolated: bool) -> Client:
        client = cls.__new__(cls)
        client._hub = shared(Launch(profile=profile, isolated=isolated))
        return client

    async def sandboxes(self) -> list[SandboxInfo]:
        """Lists the sandboxes of the profile."""
        return await self._call(calls.list_sandboxes())

    async def snapshots(self) -> list[Snapshot]:
        """Lists the snapshots of all sandboxes of the profile."""
        return await self._call(calls.list_snapshots(None))

    async def close(self) -> None:
        """Ends the process; the next call starts another one."""
        await asyncio.to_thread(self._hub.close)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _connection(self) -> Connection:
        # To start the program takes a moment, in which others are to go on.
        connection = self._hub.current
        return await asyncio.to_thread(self._hub.connection) if connection is None else connection

    async def _call(self, call: Call[T]) -> T:
        connection = await self._connection()
        pending = connection.prepare(call.method, call.params, job=call.job)
        return call.parse(await _exchange(connection, pending))

    async def _all(self, steps: Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._call(call))
        except StopIteration as end:
            value: T = end.value
            return value


async def _exchange(connection: Connection, pending: Pending) -> Any:
    try:
        connection.send(pending)
        return await asyncio.wrap_future(pending.future)
    except asyncio.CancelledError:
        await _cancel(connection, pending)
        raise


async def _cancel(connection: Connection, pending: Pending) -> None:
    if not pending.future.done() and connection.cancel(pending):
        answered = asyncio.wrap_future(pending.future)
        # That it was cancelled is known.
        answered.add_done_callback(lambda future: future.cancelled() or future.exception())
        # Until nothing of its command is left.
        await asyncio.wait([answered], timeout=waiting.CANCEL_WITHIN)


class Sandbox:
    """A durable place where commands run, as :class:`vestal.Sandbox`."""

    def __init__(self, client: Client, task: str, backend: str, notices: Sequence[str] = ()) -> None:
        self._client = client
        self.task = task
        self.backend = backend
        self.notices = tuple(notices)

    def __repr__(self) -> str:
        return f"Sandbox(task={self.task!r}, backend={self.backend!r})"

    @classmethod
    async def open(
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
        """Returns the sandbox of a task: attached to, started if it was stopped, made if there is none."""
        if client is None:
            client = Client._shared(profile, isolated)
        if mount_cwd and mount is None:
            mount = os.getcwd()
        found = await client._call(calls.open_sandbox(task, backend, image, mount))
        return cls(client, *found)

    async def run(
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
        """Runs a command and waits for it."""
        result = await self._client._call(
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
        """Runs a command and returns its output as it comes; it begins with the first iteration."""
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

    async def start(
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
        """Starts a command in the background. It outlives this process."""
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
        return Job(self._client, self.task, (await self._client._call(started)).id)

    def job(self, id: str) -> Job:
        """Returns a job by its id, whoever started it."""
        return Job(self._client, self.task, id)

    async def jobs(self, *, all: bool = False, limit: int | None = None) -> list[JobInfo]:
        """Lists the jobs of which a process is left or, with ``all``, those that have ended, too."""
        return await self._client._call(calls.jobs(self.task, all, limit))

    @property
    def files(self) -> Files:
        """The files of the sandbox."""
        return Files(self._client, self.task)

    async def snapshot(
        self, name: str | None = None, *, note: str | None = None, stop: bool = False
    ) -> Snapshot:
        """Keeps a copy. Running jobs are an error, unless ``stop`` ends them."""
        return await self._client._call(calls.create_snapshot(self.task, name, note, stop))

    async def snapshots(self) -> list[Snapshot]:
        """Lists the snapshots, the oldest first."""
        return await self._client._call(calls.list_snapshots(self.task))

    async def restore(self, snapshot: str | Snapshot, *, stop: bool = False) -> None:
        """Makes the sandbox what it was when a snapshot was kept. What it is now is lost."""
        await self._client._call(calls.restore(self.task, calls.snapshot_name(snapshot), stop))

    async def delete_snapshot(self, snapshot: str | Snapshot) -> None:
        """Deletes a snapshot."""
        await self._client._call(calls.delete_snapshot(self.task, calls.snapshot_name(snapshot)))

    async def fork(
        self, task: str, *, snapshot: str | Snapshot | None = None, stop: bool = False
    ) -> Sandbox:
        """Makes the sandbox of another task as a copy of this one, or of a snapshot of it."""
        name = None if snapshot is None else calls.snapshot_name(snapshot)
        made = await self._client._call(calls.fork(self.task, task, name, stop))
        return Sandbox(self._client, *made)

    async def touch(self) -> None:
        """Keeps it from idling out."""
        await self._client._call(calls.touch(self.task))

    async def stop(self) -> bool:
        """Stops it: its jobs end, its files stay. Returns whether it ran."""
        return await self._client._call(calls.stop(self.task))

    async def remove(self, *, files: bool = False) -> None:
        """Removes it; workspace, home and snapshots stay, unless ``files``."""
        await self._client._call(calls.remove(self.task, files))


R = TypeVar("R", Result, JobInfo)


class Stream(Generic[R]):
    """Output as it comes: an asynchronous iterator of chunks, and of lines."""

    def __init__(self, client: Client, task: str, call: Call[R]) -> None:
        self._client = client
        self._task = task
        self._call: Call[R] = call
        self._events: asyncio.Queue[Json] = asyncio.Queue()
        self._begun: tuple[Connection, Pending, Ledger] | None = None
        self._ended = False

    @property
    def job(self) -> str:
        """The id of the job."""
        assert self._call.job is not None
        return self._call.job

    async def _begin(self) -> tuple[Connection, Pending, Ledger]:
        if self._begun is None:
            loop = asyncio.get_running_loop()

            def sink(event: Json) -> None:
                try:
                    loop.call_soon_threadsafe(self._events.put_nowait, event)
                except RuntimeError:
                    pass  # The loop is closed: nobody iterates any more.

            connection = await self._client._connection()
            call = self._call
            pending = connection.prepare(call.method, call.params, sink=sink, job=call.job)
            connection.send(pending)
            self._begun = (connection, pending, Ledger(connection, pending))
        return self._begun

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        _, pending, ledger = await self._begin()
        while not self._ended:
            try:
                event = await self._events.get()
            except asyncio.CancelledError:
                await self.close()
                raise
            if is_end(event):
                self._ended = True
                pending.future.result()
                break
            chunk = ledger.chunk(event)
            if chunk is not None:
                return chunk
        raise StopAsyncIteration

    async def lines(self) -> AsyncIterator[str]:
        """Returns the lines of both streams in the order in which they end."""
        _, _, ledger = await self._begin()
        async for chunk in self:
            for line in ledger.lines(chunk):
                yield line
        for line in ledger.last_lines():
            yield line

    async def wait(self) -> R:
        """Passes over all that is still to come, and returns how it ended."""
        async for _ in self:
            pass
        _, pending, _ = await self._begin()
        return self._call.parse(pending.future.result())

    async def write(self, data: Data) -> None:
        """Writes to its standard input, as fast as it reads."""
        await self._begin()
        await self._client._call(calls.write_input(self._task, self.job, data, False))

    async def close_stdin(self) -> None:
        """Closes its standard input."""
        await self._begin()
        await self._client._call(calls.write_input(self._task, self.job, b"", True))

    async def close(self) -> None:
        """Ends the following; a command that is waited for is killed with everything it started."""
        self._ended = True
        if self._begun is not None:
            connection, pending, _ = self._begun
            await _cancel(connection, pending)

    async def __aenter__(self) -> Stream[R]:
        await self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Job:
    """A command in the background, as :class:`vestal.Job`."""

    def __init__(self, client: Client, task: str, id: str) -> None:
        self._client = client
        self.task = task
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id!r}, task={self.task!r})"

    async def info(self) -> JobInfo:
        """Returns how it is."""
        return await self.wait(0)

    async def wait(self, timeout: float | None = None) -> JobInfo:
        """Waits until it has ended or the time is up: ``ended`` says which."""
        return await self._client._call(calls.wait(self.task, self.id, timeout))

    async def logs(
        self,
        *,
        stdout_from: int | None = None,
        stderr_from: int | None = None,
        max_bytes: int | None = None,
    ) -> Logs:
        """Returns what it wrote, from offsets on; the newest unless they are given."""
        call = calls.logs(self.task, self.id, stdout_from, stderr_from, max_bytes)
        return await self._client._call(call)

    def follow(self, *, stdout_from: int = 0, stderr_from: int = 0) -> Stream[JobInfo]:
        """Returns its output as it comes, until it has ended. The job is never held up by it."""
        call = calls.follow(self.task, self.id, stdout_from, stderr_from)
        return Stream(self._client, self.task, call)

    async def kill(self, signal: int | None = None) -> JobInfo:
        """Kills everything it started, or sends its foreground processes a signal."""
        return await self._client._call(calls.kill(self.task, self.id, signal))

    async def write(self, data: Data, *, close: bool = False) -> None:
        """Writes to its standard input, as fast as it reads."""
        await self._client._call(calls.write_input(self.task, self.id, data, close))

    async def close_stdin(self) -> None:
        """Closes its standard input."""
        await self.write(b"", close=True)


class Files:
    """Files of a sandbox, as :class:`vestal.Files`."""

    def __init__(self, client: Client, task: str, session: str | None = None) -> None:
        self._client = client
        self._task = task
        self._session = session

    def in_session(self, session: str) -> Files:
        """Returns the same files, with relative paths from the directory of a session."""
        return Files(self._client, self._task, session)

    async def read(self, path: str) -> bytes:
        """Returns the content of a file."""
        return await self._client._all(calls.read_file(self._task, path, self._session))

    async def read_text(self, path: str, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Returns the content of a file as text."""
        return (await self.read(path)).decode(encoding, errors)

    async def read_range(self, path: str, offset: int, limit: int) -> bytes:
        """Returns at most so many bytes of a file (4 MiB at most)."""
        call = calls.read_range(self._task, path, self._session, offset, limit)
        return await self._client._call(call)

    async def write(
        self, path: str, data: Data, *, mode: int | None = None, new: bool = False
    ) -> FileInfo:
        """Makes data the whole content of a file, in one step; missing directories are made."""
        call = calls.write_file(self._task, path, self._session, data, mode, new)
        return await self._client._call(call)

    async def patch(self, path: str, *edits: tuple[str, str], all: bool = False) -> int:
        """Replaces pieces of a file, ``(old, new)`` each, all or none. Returns how many."""
        return await self._client._call(calls.patch(self._task, path, self._session, edits, all))

    async def list(self, path: str = ".") -> list[Entry]:
        """Lists a directory in the order of names, hidden files too."""
        return await self._client._all(calls.list_directory(self._task, path, self._session))

    async def search(
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
        return await self._client._call(call)

    async def stat(self, path: str, *, follow_symlinks: bool = True) -> FileInfo:
        """Describes a file."""
        call = calls.stat(self._task, path, self._session, not follow_symlinks)
        return await self._client._call(call)

    async def exists(self, path: str) -> bool:
        """Returns whether there is such a file or directory."""
        try:
            await self.stat(path)
        except VestalError as error:
            if calls.is_missing(error):
                return False
            raise
        return True

    async def mkdir(self, path: str, *, mode: int | None = None) -> None:
        """Makes a directory with those above it; one that is there is left alone."""
        await self._client._call(calls.mkdir(self._task, path, self._session, mode))

    async def move(self, source: str, to: str, *, overwrite: bool = False) -> None:
        """Renames a file or a directory."""
        await self._client._call(calls.move(self._task, source, to, self._session, overwrite))

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        """Deletes a file, or a directory; of a symbolic link the link."""
        await self._client._call(calls.delete(self._task, path, self._session, recursive))


class Board:
    """A board of tasks, as :class:`vestal.Board`."""

    def __init__(
        self,
        name: str | None = None,
        *,
        profile: str | None = None,
        author: str | None = None,
        client: Client | None = None,
    ) -> None:
        self._client = Client._shared(profile, False) if client is None else client
        self._name = name
        self._author = author

    async def create(
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
        """Creates a task. One with an assignee is begun by an agent of that profile."""
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
        return await self._client._call(call)

    async def list(
        self,
        *,
        status: str | None = None,
        assignee: str | None = None,
        text: str | None = None,
    ) -> list[Task]:
        """Lists tasks by status and then by urgency; archived ones only if asked for."""
        return await self._client._all(calls.list_tasks(self._name, status, assignee, text))

    async def show(self, id: str) -> TaskDetails:
        """Returns a task with its comments."""
        return await self._client._call(calls.show_task(self._name, id))

    async def comment(self, id: str, text: str) -> None:
        """Adds a comment to a task."""
        await self._client._call(calls.comment(self._name, self._author, id, text))

    async def complete(self, id: str, summary: str, *, result: str | None = None) -> Task:
        """Marks a task as done; one that needs a review goes to it."""
        call = calls.complete(self._name, self._author, id, summary, result)
        return await self._client._call(call)
