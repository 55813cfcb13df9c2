"""The SDK of the Model Context Protocol for Python against `vestal mcp serve`."""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import Implementation


def server() -> StdioServerParameters:
    return StdioServerParameters(
        command=os.environ["VESTAL_PROGRAM"],
        args=["mcp", "serve", "--toolset", "sandbox,board"],
        env=dict(os.environ),
    )


async def call(session: ClientSession, tool: str, /, **arguments):
    # Results are validated against the schemas of the tools by the SDK.
    result = await session.call_tool(tool, arguments)
    text = "".join(block.text for block in result.content)
    assert not result.is_error, text
    return result.structured_content


async def everything(session: ClientSession) -> None:
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert tools["file_read"].annotations.read_only_hint, tools["file_read"]
    failed = await call(session, "run", command="echo out; exit 3")
    assert (failed["exit_code"], failed["stdout"]) == (3, "out\n"), failed
    written = await call(session, "file_write", path="notes/a.txt", text="one\ntwo\n")
    assert written["created"], written
    await call(session, "file_edit", path="notes/a.txt", edits=[{"old_text": "two", "new_text": "three"}])
    read = await call(session, "file_read", path="notes/a.txt")
    assert read["text"] == "one\nthree\n", read
    found = await call(session, "file_search", regex="three")
    assert found["matches"][0]["line"] == 2, found
    listed = await call(session, "file_list", path="notes")
    assert [entry["name"] for entry in listed["entries"]] == ["a.txt"], listed
    resource = await session.read_resource(read["uri"])
    assert resource.contents[0].text == "one\nthree\n", resource

    job = (await call(session, "run", command="read line; echo got $line", background=True))["job"]
    await call(session, "job_write", job=job, text="hello\n")
    ended = await call(session, "job_wait", job=job)
    assert ended["exit_code"] == 0, ended
    logs = await call(session, "job_logs", job=job)
    assert logs["stdout"]["text"] == "got hello\n", logs
    assert any(one["id"] == job for one in (await call(session, "job_list", all=True))["jobs"])

    heard = []

    async def progress(done, total, message):
        heard.append(message)

    slow = await session.call_tool("run", {"command": "sleep 3"}, progress_callback=progress)
    assert not slow.is_error and heard, heard

    await call(session, "snapshot_create", name="before")
    await call(session, "run", command="rm -r notes")
    await call(session, "snapshot_restore", snapshot="before", stop=True)
    kept = await call(session, "run", command="cat notes/a.txt")
    assert kept["stdout"] == "one\nthree\n", kept
    assert len((await call(session, "snapshot_list"))["snapshots"]) == 1
    fork = (await call(session, "sandbox_fork", name="copy"))["task"]
    copied = await call(session, "run", command="cat notes/a.txt", task=fork)
    assert copied["stdout"] == "one\nthree\n", copied
    sandboxes = await call(session, "sandbox_list")
    assert {one["task"] for one in sandboxes["sandboxes"]} == {sandboxes["own"], fork}, sandboxes

    task = await call(session, "board_create", title="light the fire")
    await call(session, "board_comment", id=task["id"], text="carefully")
    done = await call(session, "board_complete", id=task["id"], summary="it burns")
    assert done["status"] == "done", done

    refused = await session.call_tool("file_read", {"path": "/no/such"})
    assert refused.is_error and "What to do" in refused.content[0].text, refused
    assert (await call(session, "sandbox_stop"))["was_running"]


async def main() -> None:
    async with stdio_client(server()) as (read, write):
        info = Implementation(name="python-sdk", version="1")
        async with ClientSession(read, write, client_info=info) as session:
            begun = await session.initialize()
            assert begun.server_info.name == "vestal", begun
            if sys.argv[1] == "wait":
                await session.call_tool("run", {"command": f"sleep {sys.argv[2]}"})
            else:
                await everything(session)
                print("ok")


asyncio.run(main())
