"""Makes a home of hermes-agent with its own programs and library, for the tests of `vestal migrate`.

    PYTHON scripts/lib/hermes-home.py DIR

PYTHON is that of a virtual environment with hermes-agent. Nothing is asked on the network. Prints a JSON
object that says what is in the home.
"""

import json
import os
import pathlib
import subprocess
import sys

home = pathlib.Path(sys.argv[1]).absolute()
home.mkdir(mode=0o700, parents=True, exist_ok=True)
os.environ["HERMES_HOME"] = str(home)
os.environ["HOME"] = str(home.parent)
os.environ["HERMES_ACCEPT_HOOKS"] = "1"
# Bundled skills are copied by the program itself when it starts; an empty set of them is quicker.
os.environ.setdefault("HERMES_BUNDLED_SKILLS", str(home.parent / "bundled"))
(home.parent / "bundled" / "shipped").mkdir(parents=True, exist_ok=True)
(home.parent / "bundled" / "shipped" / "SKILL.md").write_text(
    "---\nname: shipped\ndescription: Comes with the program\n---\nNothing of the person's.\n"
)


def hermes(*args):
    """Runs its command line."""
    program = pathlib.Path(sys.executable).parent / "hermes"
    done = subprocess.run([program, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"hermes {' '.join(args)} failed: {done.stdout}{done.stderr}")
    return done.stdout


for key, value in [
    ("model.default", "scripted"),
    ("model.provider", "custom"),
    ("model.base_url", "http://127.0.0.1:9/v1"),
    ("terminal.backend", "local"),
    ("terminal.timeout", "240"),
    ("terminal.docker_image", "debian:stable-slim"),
    ("agent.max_turns", "33"),
    ("compression.threshold", "0.7"),
    ("kanban.failure_limit", "4"),
    ("approvals.mode", "manual"),
    ("display.personality", "pirate"),
    ("OPENAI_API_KEY", "sk-migrated-0123456789abcdefghij"),
]:
    hermes("config", "set", key, value)

hermes("profile", "create", "research", "--no-alias", "--no-skills")
(home / "profiles" / "research" / "SOUL.md").write_text("You are careful with sources.\n")
(home / "SOUL.md").write_text("You are the keeper of the lighthouse.\n")

from tools.memory_tool import MemoryStore  # noqa: E402  the home must be known first

notes = MemoryStore()
notes.load_from_disk()
notes.add("memory", "The tests need a running database.")
notes.add("memory", "Deployments happen on Tuesdays.")
notes.add("user", "Likes short answers.")

skill = home / "skills" / "ops" / "restart-lamp"
skill.mkdir(parents=True)
(skill / "SKILL.md").write_text(
    "---\nname: restart-lamp\ndescription: Restarts the lamp of the lighthouse\n---\nRun lamp.sh.\n"
)
(skill / "lamp.sh").write_text("#!/bin/sh\necho lit\n")
(skill / "lamp.sh").chmod(0o755)
shipped = home / "skills" / "shipped"
if not shipped.exists():
    from tools.skills_sync import sync_skills

    sync_skills(quiet=True)

from hermes_state import SessionDB  # noqa: E402

state = SessionDB(db_path=home / "state.db")
first = "20260301_080000_aa11bb"
about = {"model": "scripted", "system_prompt": "You are helpful."}
try:
    state.create_session(first, "cli", cwd="/srv/lighthouse", **about)
except TypeError:  # Before 0.16 it was not kept.
    state.create_session(first, "cli", **about)
state.set_session_title(first, "Lighthouse keeping")
state.append_message(first, "user", "How many lumens has the fresnel lantern?")
state.append_message(
    first,
    "assistant",
    "I look it up.",
    tool_calls=[
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "terminal", "arguments": '{"command": "cat lumens"}'},
        }
    ],
    finish_reason="tool_calls",
    reasoning="The file may say it.",
)
state.append_message(
    first,
    "tool",
    '{"output": "eighty thousand", "exit_code": 0}',
    tool_name="terminal",
    tool_call_id="call_1",
)
state.append_message(first, "assistant", "Eighty thousand.", finish_reason="stop")
state.append_message(
    first,
    "user",
    [
        {"type": "text", "text": "And this picture?"},
        {
            "type": "image_url",
            "image_url": {
                "url": "data:image/png;base64,"
                "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
            },
        },
    ],
)
state.append_message(first, "assistant", "A lamp.", finish_reason="stop")
state.update_token_counts(
    first,
    input_tokens=1200,
    output_tokens=80,
    model="scripted",
    billing_provider="custom",
    estimated_cost_usd=0.25,
    api_call_count=3,
)
state.end_session(first, "compression")
second = "20260301_090000_cc22dd"
state.create_session(second, "cli", model="scripted", parent_session_id=first)
state.append_message(second, "user", "[Summary of what was said before: lumens were counted.]")
state.append_message(second, "assistant", "The beacon goes on.", finish_reason="stop")
undone = state.append_message(second, "user", "paint it chartreuse")
state.append_message(second, "assistant", "Painted.", finish_reason="stop")
if hasattr(state, "rewind_to_message"):  # From 0.16 on.
    state.rewind_to_message(second, undone)
# Of a process that died in the middle of a call.
third = "20260302_100000_ee33ff"
state.create_session(third, "telegram", model="scripted", user_id="42")
state.append_message(third, "user", "Is the foghorn working?")
state.append_message(
    third,
    "assistant",
    None,
    tool_calls=[
        {
            "id": "call_9",
            "type": "function",
            "function": {"name": "terminal", "arguments": '{"command": "horn"}'},
        }
    ],
    finish_reason="tool_calls",
)
if hasattr(state, "archive_and_compact"):
    fourth = "20260303_110000_ff44aa"
    state.create_session(fourth, "tui", model="scripted")
    state.append_message(fourth, "user", "Count the gulls at noon.")
    state.append_message(fourth, "assistant", "Twelve gulls.", finish_reason="stop")
    state.archive_and_compact(
        fourth, [{"role": "user", "content": "[Summary: twelve gulls were counted.]"}]
    )
    state.append_message(fourth, "assistant", "Thirteen by now.", finish_reason="stop")
state.close()
research = SessionDB(db_path=home / "profiles" / "research" / "state.db")
research.create_session("20260304_120000_bb55cc", "cli", model="scripted")
research.append_message("20260304_120000_bb55cc", "user", "Which almanac has the tides?")
research.append_message("20260304_120000_bb55cc", "assistant", "The nautical one.", finish_reason="stop")
research.close()

from hermes_cli import kanban_db  # noqa: E402

kanban_db.create_board("harbour", name="Harbour works", description="Everything wet")
with kanban_db.connect_closing() as board:
    parent = kanban_db.create_task(
        board, title="Clean the lens", body="With vinegar.", assignee="research", priority=3, created_by="user"
    )
    child = kanban_db.create_task(board, title="Light the lamp", parents=[parent], idempotency_key="light")
    kanban_db.add_comment(board, parent, "user", "Use the soft cloth.")
    done = kanban_db.create_task(board, title="Buy vinegar", assignee="default")
    kanban_db.complete_task(board, done, result="bought", summary="Two litres of vinegar")
    blocked = kanban_db.create_task(board, title="Ask the harbour master", assignee="default")
    kanban_db.claim_task(board, blocked)
    kanban_db.block_task(board, blocked, reason="he is away")
    running = kanban_db.create_task(board, title="Paint the tower", assignee="research")
    kanban_db.claim_task(board, running)
    triage = kanban_db.create_task(board, title="Something about gulls", triage=True)
    gone = kanban_db.create_task(board, title="Old idea")
    kanban_db.archive_task(board, gone)
    if hasattr(kanban_db, "attachments_root"):  # From 0.16 on.
        stored = kanban_db.attachments_root() / parent / "plan.txt"
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text("first the left side\n")
        kanban_db.add_attachment(
            board, parent, filename="plan.txt", stored_path=str(stored), content_type="text/plain", size=20
        )
with kanban_db.connect_closing(board="harbour") as board:
    kanban_db.create_task(board, title="Mend the jetty", priority=-2, tenant="north")

hermes("cron", "create", "0 9 * * 1-5", "Look at the weather", "--name", "morning weather", "--skill", "restart-lamp")
hermes("cron", "create", "every 2h", "Look at the lamp", "--name", "lamp check", "--deliver", "telegram")
paused = hermes("cron", "create", "0 3 * * *", "Sweep the stairs", "--name", "stairs")
jobs = json.loads((home / "cron" / "jobs.json").read_text())["jobs"]
hermes("cron", "pause", next(job["id"] for job in jobs if job["name"] == "stairs"))

print(
    json.dumps(
        {
            "tasks": {"parent": parent, "child": child, "done": done, "blocked": blocked, "running": running},
            "jobs": [job["id"] for job in jobs],
        }
    )
)
