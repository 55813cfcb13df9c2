"""A home of its own for each test, and sandboxes on every backend that there is."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vestal import Client, NotFound, Sandbox

DOCKER = os.environ.get("VESTAL_TEST_DOCKER_HOST")

BACKENDS = ["native", *(["docker"] if DOCKER else [])]


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vp.") as directory:
        yield Path(directory)


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    environment = {"HOME": str(home), "VESTAL_HOME": str(home / "vestal")}
    for name in ("PATH", "TMPDIR", "XDG_RUNTIME_DIR"):
        if name in os.environ:
            environment[name] = os.environ[name]
    if DOCKER:
        environment["DOCKER_HOST"] = DOCKER
    return environment


@pytest.fixture
def program() -> str:
    # The program that is tested, also where the package was installed from a wheel with another.
    return os.environ["VESTAL_TEST_PYTHON_PROGRAM"]


@pytest.fixture
def client(program: str, environment: dict[str, str]) -> Iterator[Client]:
    settings = {"terminal.docker_image": "vestal-test/base:latest", "terminal.docker_network": "false"}
    with Client(program=program, env=environment, settings=settings) as client:
        yield client
        for found in client.sandboxes():
            try:
                Sandbox(client, found.task, found.backend).remove(files=True)
            except NotFound:
                pass


@pytest.fixture(params=BACKENDS)
def sandbox(request: pytest.FixtureRequest, client: Client) -> Sandbox:
    return Sandbox.open("web", backend=request.param, client=client)


@pytest.fixture
def native(client: Client) -> Sandbox:
    return Sandbox.open("web", backend="native", client=client)


@pytest.fixture
def mark() -> str:
    """Returns a number that no other process has on its command line."""
    return f"{secrets.randbelow(10**6) + 10**6}.{secrets.randbelow(10**9)}"


@pytest.fixture
def processes(mark: str) -> Callable[[], list[int]]:
    """Returns the processes of this machine with the mark on their command line."""

    def found() -> list[int]:
        pids = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = path.read_bytes().split(b"\0")
            except OSError:
                continue
            # A shell has the whole text as one argument.
            if mark.encode() in arguments:
                pids.append(int(path.parent.name))
        return pids

    return found
