"""The SDK of the Agent Client Protocol for Python against `vestal acp`."""

import asyncio
import os
import sys

from acp import spawn_agent_process, text_block
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    EnvVariable,
    Implementation,
    McpServerStdio,
    RequestPermissionResponse,
)


class Editor(Client):
    """What an editor does with what it hears."""

    def __init__(self):
        self.updates = []
        self.asked = []

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append(tool_call)
        once = next(option for option in options if option.kind == "allow_once")
        outcome = AllowedOutcome(option_id=once.option_id, outcome="selected")
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **kwargs):
        # The SDK has read it into the type of its kind, or refused it.
        self.updates.append(update)

    def of(self, kind):
        return [update for update in self.updates if update.session_update == kind]

    def words(self, kind="agent_message_chunk"):
        return "".join(update.content.text for update in self.of(kind))


async def everything(agent, editor, project):
    session = await agent.new_session(cwd=project)
    assert session.modes.current_mode_id == "ask", session
    chosen = {option.id: option for option in session.config_options}
    assert list(chosen) == ["mode", "model", "thought_level"], session
    assert [mode.value for mode in chosen["mode"].options] == ["ask", "yolo", "plan"], session
    prompt = [text_block("work")]
    done = await agent.prompt(session_id=session.session_id, prompt=prompt)
    assert done.stop_reason == "end_turn", done
    assert editor.words() == "It burns.", editor.updates
    assert editor.words("agent_thought_chunk").startswith("Is it lit?"), editor.updates
    commands = editor.of("available_commands_update")[0].available_commands
    assert any(command.name == "compress" for command in commands), commands
    titles = {call.tool_call_id: call for call in editor.of("tool_call")}
    kinds = [call.kind for call in titles.values()]
    assert kinds == ["execute", "edit", "execute", "think"], kinds
    ended = [update for update in editor.of("tool_call_update") if update.status == "completed"]
    assert len(ended) == 4, ended
    assert ended[0].content[0].content.text == "```console\n/workspace\n```", ended[0]
    change = ended[1].content[0]
    path = os.path.join(project, "notes.txt")
    assert (change.type, change.path, change.new_text) == ("diff", path, "one\n"), change
    assert ended[1].locations is None or ended[1].locations[0].path == path
    with open(path) as notes:
        assert notes.read() == "one\n"
    assert [entry.status for entry in editor.of("plan")[-1].entries] == ["in_progress"]

    await agent.set_session_mode(session_id=session.session_id, mode_id="yolo")
    failed = None
    try:
        await agent.set_session_mode(session_id=session.session_id, mode_id="no-such")
    except Exception as error:
        failed = error
    assert failed is not None and "no mode" in str(failed), failed

    waiting = asyncio.create_task(
        agent.prompt(session_id=session.session_id, prompt=[text_block("wait")])
    )
    while len(editor.of("tool_call")) < 5:
        await asyncio.sleep(0.02)
    await agent.cancel(session_id=session.session_id)
    assert (await waiting).stop_reason == "cancelled"

    set_option = {"session_id": session.session_id}
    changed = await agent.set_config_option(config_id="thought_level", value="low", **set_option)
    assert changed.config_options[2].current_value == "low", changed
    changed = await agent.set_config_option(config_id="mode", value="plan", **set_option)
    assert changed.config_options[0].current_value == "plan", changed
    prompt = [text_block("plan")]
    asked = len(editor.asked)
    done = await agent.prompt(session_id=session.session_id, prompt=prompt)
    assert done.stop_reason == "end_turn", done
    assert [call.kind for call in editor.asked[asked:]] == ["switch_mode"], editor.asked
    # What was chosen before goes on once the plan is approved.
    assert editor.of("current_mode_update")[-1].current_mode_id == "yolo", editor.updates
    await with_server(agent, editor, project)

    listed = await agent.list_sessions(cwd=project)
    assert session.session_id in [one.session_id for one in listed.sessions], listed
    await agent.close_session(session_id=session.session_id)
    editor.updates.clear()
    await agent.load_session(cwd=project, session_id=session.session_id)
    assert editor.words("user_message_chunk").startswith("work"), editor.updates
    assert "It burns." in editor.words(), editor.updates
    assert len(editor.of("tool_call")) == 6, editor.updates


async def with_server(agent, editor, project):
    """A server of tools that the editor brings along: the sandboxes of the same program."""
    names = ("HOME", "VESTAL_HOME", "TERMINAL_ENV", "PATH")
    server = McpServerStdio(
        name="boxes",
        command=os.environ["VESTAL_PROGRAM"],
        args=["mcp", "serve", "--task", "box"],
        env=[EnvVariable(name=name, value=os.environ[name]) for name in names],
    )
    session = await agent.new_session(cwd=project, mcp_servers=[server])
    await agent.set_session_mode(session_id=session.session_id, mode_id="yolo")
    prompt = [text_block("boxes")]
    done = await agent.prompt(session_id=session.session_id, prompt=prompt)
    assert done.stop_reason == "end_turn", done
    assert editor.words().endswith("Boxed."), editor.updates
    await agent.close_session(session_id=session.session_id)


async def main():
    project = sys.argv[2]
    editor = Editor()
    agent = spawn_agent_process(
        editor, os.environ["VESTAL_PROGRAM"], "acp", env=dict(os.environ), cwd=project
    )
    async with agent as (connection, process):
        info = Implementation(name="python-sdk", version="1")
        begun = await connection.initialize(protocol_version=1, client_info=info)
        assert begun.agent_capabilities.load_session, begun
        if sys.argv[1] == "wait":
            session = await connection.new_session(cwd=project)
            await connection.prompt(session_id=session.session_id, prompt=[text_block("wait")])
        else:
            await everything(connection, editor, project)
            print("ok")


asyncio.run(main())
