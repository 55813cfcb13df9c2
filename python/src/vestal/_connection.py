"""The protocol of ``vestal serve --sandboxes``: one process, any number of requests at once.

There is one implementation for both clients. A thread reads what the program sends, another writes what
it is sent, and each request is a ``concurrent.futures.Future``, which the one client waits for and the other
awaits.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import IO, Any

from . import _program
from .errors import ConnectionLost, VestalError, from_wire

Json = dict[str, Any]

# Gets each event of a request; called by the thread that reads.
EventSink = Callable[[Json], None]

READY_WITHIN = 60.0
"""Seconds that the program may take to begin."""

END_WITHIN = 5.0
"""Seconds that it may take to end."""

SAID = 50
"""Lines of its standard error that are kept, for when it fails."""


@dataclass(frozen=True)
class Launch:
    """How the program is started."""

    profile: str | None = None
    home: str | None = None
    isolated: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    program: str | None = None
    environment: tuple[tuple[str, str], ...] | None = None

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Returns the command line and the environment."""
        environment = dict(os.environ if self.environment is None else self.environment)
        if self.home is not None:
            environment["VESTAL_HOME"] = self.home
        argv = [self.program or _program.find_program(environment)]
        if self.profile is not None:
            argv += ["--profile", self.profile]
        for name, value in self.settings:
            argv += ["--set", f"{name}={value}"]
        argv += ["serve", "--sandboxes"]
        if self.isolated:
            argv.append("--isolated")
        return argv, environment


@dataclass
class Pending:
    """A request that has no answer yet."""

    id: int
    line: bytes = b""
    future: Future[Any] = field(default_factory=Future)
    sink: EventSink | None = None
    job: str | None = None


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


class Connection:
    """A process of the program, and the requests that it has."""

    def __init__(self, launch: Launch) -> None:
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lost: VestalError | None = None
        self._ready: Future[Json] = Future()
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._said: deque[str] = deque(maxlen=SAID)
        argv, environment = launch.command()
        try:
            # In a session of its own: Ctrl-C is this process's, which cancels what it waits for.
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise _program.not_started(argv[0], error) from error
        _connections.add(self)
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None and stdout is not None and stderr is not None
        self._errors = self._thread(self._keep_errors, stderr)
        self._writer = self._thread(self._write, stdin)
        self._reader = self._thread(self._read, stdout)
        try:
            self.ready: Json = self._ready.result(READY_WITHIN)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def _thread(self, target: Callable[[IO[bytes]], None], file: IO[bytes]) -> threading.Thread:
        thread = threading.Thread(target=target, args=(file,), name="vestal", daemon=True)
        thread.start()
        return thread

    @property
    def is_alive(self) -> bool:
        """Whether requests can be sent."""
        return self._lost is None

    def prepare(
        self,
        method: str,
        params: Mapping[str, object],
        *,
        sink: EventSink | None = None,
        job: str | None = None,
    ) -> Pending:
        """Returns a request that is to be sent. Parameters that are ``None`` are left out.

        It can be cancelled from here on: Ctrl-C may come between any two steps of sending it.
        """
        pending = Pending(next(self._ids), sink=sink, job=job)
        # Whoever gives up waiting cancels the request, not the future.
        pending.future.set_running_or_notify_cancel()
        given = {name: value for name, value in params.items() if value is not None}
        frame = {"jsonrpc": "2.0", "id": pending.id, "method": method, "params": given}
        line = json.dumps(frame, ensure_ascii=False, separators=(",", ":"))
        line_bytes = line.encode("utf-8", "surrogatepass") + b"\n"
        limit = self.ready["max_frame_bytes"]
        if len(line_bytes) > limit:
            raise VestalError(
                f"the request has {len(line_bytes)} bytes, and may have {limit}",
                advice=["pass less at once"],
                kind="invalid",
            )
        pending.line = line_bytes
        return pending

    def send(self, pending: Pending) -> None:
        """Sends a request."""
        with self._lock:
            if self._lost is not None:
                raise _again(self._lost, None)
            self._pending[pending.id] = pending
        line, pending.line = pending.line, b""
        self._outgoing.put(line)

    def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Sends a request that is not answered."""
        frame = {"jsonrpc": "2.0", "method": method, "params": params}
        self._outgoing.put(json.dumps(frame).encode() + b"\n")

    def cancel(self, pending: Pending) -> bool:
        """Cancels a request, which is answered all the same. Returns false if it was never sent."""
        if pending.line:
            with self._lock:
                self._pending.pop(pending.id, None)
            return False
        self.notify("request.cancel", {"id": pending.id})
        return True

    def grant(self, pending: Pending, size: int) -> None:
        """Lets a request send more output."""
        self.notify("request.grant", {"id": pending.id, "bytes": size})

    def end(self) -> None:
        """Has the process end, and does not wait for it."""
        self._outgoing.put(None)

    def close(self) -> None:
        """Ends the process: foreground commands are killed, background jobs and sandboxes stay."""
        self.end()
        try:
            self._process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in (self._reader, self._writer, self._errors):
            if thread is not threading.current_thread():
                thread.join(END_WITHIN)
        _connections.discard(self)

    def forget(self) -> None:
        """Lets go of the process without ending it: it belongs to the process that this one was forked of."""
        self._lost = ConnectionLost("this process was forked; its parent has the connection")
        null = os.open(os.devnull, os.O_RDWR)
        for file in (self._process.stdin, self._process.stdout, self._process.stderr):
            if file is not None and not file.closed:
                # The number stays the file's own, which closes it some day.
                os.dup2(null, file.fileno())
        os.close(null)
        # Python would wait for it otherwise, and it is no child of this process.
        self._process.returncode = 0

    # What follows runs in the threads.

    def _write(self, stdin: IO[bytes]) -> None:
        try:
            while (line := self._outgoing.get()) is not None:
                stdin.write(line)
                stdin.flush()
        except (OSError, ValueError):
            pass
        finally:
            try:
                stdin.close()
            except OSError:
                pass

    def _keep_errors(self, stderr: IO[bytes]) -> None:
        for line in stderr:
            self._said.append(line.decode("utf-8", "replace").rstrip())
        stderr.close()

    def _read(self, stdout: IO[bytes]) -> None:
        reason = "the program vestal has ended"
        try:
            for line in stdout:
                closed = self._take(json.loads(line))
                reason = closed or reason
        except Exception as error:  # A program that speaks another language is a lost one.
            reason = f"the program vestal sent what is no answer: {error}"
        finally:
            self._lose(reason)
            stdout.close()

    def _take(self, frame: Json) -> str | None:
        if "method" in frame:
            params = frame["params"]
            kind, payload = params["type"], params["payload"]
            if kind == "sandboxes.ready":
                self._ready.set_result(payload)
            elif kind == "connection.closed":
                return f"the program vestal has ended: {payload['reason']}"
            else:
                with self._lock:
                    pending = self._pending.get(payload.get("request"))
                if pending is not None and pending.sink is not None:
                    pending.sink({"type": kind, **payload})
            return None
        with self._lock:
            pending = self._pending.pop(frame["id"], None) if frame["id"] is not None else None
        if pending is None:
            return None
        if "error" in frame:
            self._settle(pending, from_wire(frame["error"]))
        else:
            self._settle(pending, frame["result"])
        return None

    def _settle(self, pending: Pending, outcome: object) -> None:
        if isinstance(outcome, VestalError):
            if outcome.job is None:
                outcome.job = pending.job
            pending.future.set_exception(outcome)
        else:
            pending.future.set_result(outcome)
        if pending.sink is not None:
            pending.sink({"type": "end"})

    def _lose(self, reason: str) -> None:
        exit_code: int | None = None
        # One that still runs is to end: what it is sent, nobody hears the answer to.
        self.end()
        try:
            exit_code = self._process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._errors.join(END_WITHIN)
        said = "\n".join(self._said)
        lost = _program.ended(exit_code, said) if not self._ready.done() else None
        if lost is None:
            advice = self._said if exit_code else ()
            lost = ConnectionLost(reason, advice=list(advice))
        with self._lock:
            self._lost = lost
            pending = list(self._pending.values())
            self._pending.clear()
        if not self._ready.done():
            self._ready.set_exception(lost)
        for one in pending:
            self._settle(one, _again(lost, one.job))


def _again(error: VestalError, job: str | None) -> VestalError:
    """Returns the same error for one more request: an exception that is raised twice grows."""
    advice: Sequence[str] = error.advice
    if job is not None:
        advice = [*advice, f"`sandbox.job({job!r})` finds its command again"]
    return type(error)(error.message, advice=advice, kind=error.kind, code=error.code, job=job)


def _after_fork() -> None:
    for connection in list(_connections):
        connection.forget()
    _connections.clear()


os.register_at_fork(after_in_child=_after_fork)
