"""What can go wrong, one class for each kind that a program may want to tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .results import Result

__all__ = [
    "AlreadyExists",
    "BackendUnavailable",
    "Busy",
    "Cancelled",
    "CommandFailed",
    "CommandTimedOut",
    "Conflict",
    "ConnectionLost",
    "FileNotFound",
    "InvalidRequest",
    "JobLost",
    "NeverStarted",
    "NoSpace",
    "NotFound",
    "NotIsolated",
    "OutcomeUnknown",
    "PermissionDenied",
    "ProgramNotFound",
    "Stopped",
    "Unreachable",
    "UnsupportedPlatform",
    "VestalError",
    "WrongFileKind",
]


class VestalError(Exception):
    """Something was not done.

    ``advice`` says what to do about it, a sentence each; ``kind`` and ``code`` are those of the protocol.
    """

    def __init__(
        self,
        message: str,
        *,
        advice: Sequence[str] = (),
        kind: str | None = None,
        code: int | None = None,
        job: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.advice = tuple(advice)
        self.kind = kind
        self.code = code
        self.job = job

    def __str__(self) -> str:
        return "; ".join([self.message, *self.advice])


class ProgramNotFound(VestalError):
    """The program ``vestal`` is neither in the wheel nor on the PATH."""


class UnsupportedPlatform(VestalError):
    """The program cannot run on this system."""


class ConnectionLost(VestalError):
    """The program has ended. Background jobs run on, and so do the sandboxes.

    ``job`` names the command that was waited for: ``sandbox.job(job)`` finds it again.
    """


class InvalidRequest(VestalError):
    """An argument cannot be used."""


class NotFound(VestalError):
    """There is no such sandbox, job, snapshot or task."""


class FileNotFound(NotFound, FileNotFoundError):
    """There is no such file or directory in the sandbox."""


class AlreadyExists(VestalError):
    """There is one already: a file, a snapshot, a sandbox."""


class Conflict(VestalError):
    """What the request relies on has changed, or an edit does not apply."""


class WrongFileKind(VestalError):
    """The file is a directory, or is none."""


class PermissionDenied(VestalError, PermissionError):
    """The file may not be used so."""


class NoSpace(VestalError):
    """A disk or a limit is full."""


class Busy(VestalError):
    """Jobs or other calls are in the way."""


class Stopped(VestalError):
    """The sandbox does not run, and the request needs it to."""


class NotIsolated(VestalError):
    """The sandbox would have no isolation, which was asked for."""


class BackendUnavailable(VestalError):
    """No backend can be used here, or not the one that was asked for."""


class Unreachable(VestalError):
    """The sandbox is there and cannot be reached."""


class JobLost(VestalError):
    """The job can no longer be followed, and may still be running."""


class NeverStarted(VestalError):
    """The command has not run and never will: it is safe to run it again."""


class OutcomeUnknown(VestalError):
    """Nobody can tell whether the command ran."""


class Cancelled(VestalError):
    """The request was cancelled; nothing of its command is left."""


class CommandFailed(VestalError):
    """A command that was to succeed has ended with another exit code than 0. ``result`` has its output."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message, job=result.job)
        self.result = result


class CommandTimedOut(CommandFailed):
    """A command that was to succeed took too long and was killed."""


_BY_KIND: Mapping[str, type[VestalError]] = {
    "invalid": InvalidRequest,
    "settings": InvalidRequest,
    "no_sandbox": NotFound,
    "no_job": NotFound,
    "no_snapshot": NotFound,
    "no_task": NotFound,
    "no_file": FileNotFound,
    "no_workdir": FileNotFound,
    "exists": AlreadyExists,
    "conflict": Conflict,
    "wrong_kind": WrongFileKind,
    "denied": PermissionDenied,
    "no_space": NoSpace,
    "busy": Busy,
    "stopped": Stopped,
    "not_isolated": NotIsolated,
    "unavailable": BackendUnavailable,
    "unreachable": Unreachable,
    "lost": JobLost,
    "never_started": NeverStarted,
    "outcome_unknown": OutcomeUnknown,
    "cancelled": Cancelled,
}

# Errors of the protocol itself have a code and no kind.
_BY_CODE: Mapping[int, type[VestalError]] = {-32602: InvalidRequest, -32601: InvalidRequest}


def from_wire(error: object) -> VestalError:
    """Returns the exception for the member ``error`` of an answer."""
    members = error if isinstance(error, dict) else {}
    data = members.get("data")
    data = data if isinstance(data, dict) else {}
    kind, code, advice = data.get("kind"), members.get("code"), data.get("advice")
    found = _BY_KIND.get(kind) if isinstance(kind, str) else None
    found = found or _BY_CODE.get(code if isinstance(code, int) else 0) or VestalError
    return found(
        str(members.get("message", "the program answered with an error")),
        advice=[str(one) for one in advice] if isinstance(advice, list) else [],
        kind=kind if isinstance(kind, str) else None,
        code=code if isinstance(code, int) else None,
        job=data.get("job") if isinstance(data.get("job"), str) else None,
    )
