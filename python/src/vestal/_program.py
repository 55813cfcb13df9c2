"""Finds the program ``vestal``, and says in one sentence why it cannot run here."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from .errors import ProgramNotFound, UnsupportedPlatform, VestalError

NAME = "vestal"

# What `native` sandboxes need; older kernels have no isolation without a container engine.
OLDEST_KERNEL = (5, 12)


def find_program(environment: Mapping[str, str] | None = None) -> str:
    """Returns the path of the program: of this wheel, else ``VESTAL_PROGRAM``, else on the PATH."""
    environment = os.environ if environment is None else environment
    require_linux()
    found = _in_wheel() or environment.get("VESTAL_PROGRAM")
    found = found or shutil.which(NAME, path=environment.get("PATH"))
    if not found:
        raise ProgramNotFound(
            "the program vestal was not found",
            advice=["install the wheel `vestal`, or set VESTAL_PROGRAM to the program"],
        )
    return found


def require_linux(system: str | None = None) -> None:
    """Refuses systems that the program is not made for."""
    system = sys.platform if system is None else system
    if not system.startswith("linux"):
        raise UnsupportedPlatform(f"Vestal runs on Linux, and this is {system}")


def _in_wheel() -> str | None:
    """Returns the program that was installed with this package, wherever its scheme puts scripts."""
    try:
        files = metadata.distribution(NAME).files
    except metadata.PackageNotFoundError:
        return None
    for file in files or ():
        if file.name == NAME and file.parent.name == "bin":
            found = Path(str(file.locate())).resolve()
            if os.access(found, os.X_OK):
                return str(found)
    return None


def not_started(program: str, error: OSError) -> VestalError:
    """Returns the reason why the program did not start."""
    if error.errno == errno.ENOENT and os.path.exists(program):
        return UnsupportedPlatform(
            f"{program} is linked with a loader that this system does not have (it needs glibc)"
        )
    if error.errno == errno.ENOENT:
        return ProgramNotFound(
            f"there is no program {program}", advice=["set VESTAL_PROGRAM to the program vestal"]
        )
    if error.errno == errno.ENOEXEC:
        return UnsupportedPlatform(f"{program} is not a program for {platform.machine()}")
    return VestalError(f"{program} cannot be started: {error.strerror}")


def ended(exit_code: int | None, said: str) -> VestalError | None:
    """Returns the reason why the program ended at once, if it is this system."""
    library = re.search(r"version `(GLIBC_[0-9.]+)' not found", said)
    if library:
        have = platform.libc_ver()[1] or "none"
        return UnsupportedPlatform(
            f"this vestal needs {library[1].replace('_', ' ')}, and this system has {have}"
        )
    release = kernel_release()
    if exit_code is not None and exit_code < 0 and release and release < OLDEST_KERNEL:
        need, have = ".".join(map(str, OLDEST_KERNEL)), ".".join(map(str, release))
        return UnsupportedPlatform(f"Vestal needs Linux {need} or newer, and this is {have}")
    return None


def kernel_release() -> tuple[int, int] | None:
    """Returns the version of the kernel."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(found[1]), int(found[2])) if found else None
