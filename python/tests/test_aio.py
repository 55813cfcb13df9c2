"""The client for asyncio, against real sandboxes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from support import PATIENCE

import vestal
from vestal import aio

Processes = Callable[[], list[int]]


def client_like(client: vestal.Client) -> aio.Client:
    """Returns the client for asyncio of the same process."""
    other = aio.Client.__new__(aio.Client)
    other._hub = client._hub
    return other


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE) if hasattr(asyncio, "timeout") else _Forever():
        while not is_so():
            await asyncio.sleep(0.01)


class _Forever:
    """Python 3.10 has no ``asyncio.timeout``."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


def test_commands_run_beside_each_other(client: vestal.Client) -> None:
    async def main() -> None:
        sandbox = await aio.Sandbox.open("web", backend="native", client=client_like(client))
        # Each waits until the next has begun: one after the other they would never end.
        await sandbox.run("mkfifo a b", check=True)
        results = await asyncio.gather(
            sandbox.run("cat a; echo x > b", session="one"),
            sandbox.run("echo y > a; cat b", session="two"),
        )
        assert [result.stdout for result in results] == ["y\n", "x\n"]
        with pytest.raises(vestal.CommandFailed):
            await sandbox.run("exit 2", check=True)

    asyncio.run(main())


def test_a_cancelled_task_kills_its_command(
    client: vestal.Client, mark: str, processes: Processes
) -> None:
    async def main() -> None:
        sandbox = await aio.Sandbox.open("web", backend="native", client=client_like(client))
        for begin in (sandbox.run(f"sleep {mark}"), sandbox.stream(f"sleep {mark}").wait()):
            waiting = asyncio.ensure_future(begin)
            await until(processes)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not processes()
        assert (await sandbox.run("echo on")).stdout == "on\n"

    asyncio.run(main())


def test_output_jobs_files_and_copies_are_awaited(client: vestal.Client) -> None:
    async def main() -> None:
        sandbox = await aio.Sandbox.open("web", backend="native", client=client_like(client))
        async with sandbox.stream("echo one; read x; echo $x >&2", stdin=True) as stream:
            await stream.write("two\n")
            assert [line async for line in stream.lines()] == ["one", "two"]
            assert (await stream.wait()).exit_code == 0
        job = await sandbox.start("cat; exit 3")
        await job.write("typed", close=True)
        assert (await job.wait()).exit_code == 3
        assert b"".join([chunk.data async for chunk in job.follow()]) == b"typed"
        assert (await job.logs()).stdout.text == "typed"
        await sandbox.files.write("state", b"before")
        kept = await sandbox.snapshot("kept")
        await sandbox.files.write("state", "after")
        copy = await sandbox.fork("copy")
        await sandbox.restore(kept)
        assert await sandbox.files.read("state") == b"before"
        assert await copy.files.read_text("state") == "after"
        assert [entry.name for entry in await copy.files.list()] == ["state"]
        task = await aio.Board(client=client_like(client)).create("light it")
        assert (await aio.Board(client=client_like(client)).show(task.id)).task.title == "light it"

    asyncio.run(main())


def test_both_clients_have_the_same_methods() -> None:
    for name in vestal.client.__all__:
        ours, theirs = (
            {method for method in vars(getattr(module, name)) if not method.startswith("_")}
            for module in (vestal.client, aio)
        )
        assert ours == theirs, name
