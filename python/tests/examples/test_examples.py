"""The examples, with a model that says what a script tells it to and real sandboxes.

VESTAL_TEST_MODEL names its address. It has the tool `terminal` light a lantern, and says that it is lit when it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vestal import Client, Sandbox

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.mark.parametrize("example", ["langchain_agent.py", "openai_agent.py"])
def test_an_agent_of_others_works_in_a_durable_sandbox(
    example: str, environment: dict[str, str], program: str, client: Client
) -> None:
    answered = subprocess.run(
        [sys.executable, EXAMPLES / example, "light", "the", "lantern"],
        env={
            **environment,
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "VESTAL_PROGRAM": program,
            "TERMINAL_ENV": "native",
            "OPENAI_BASE_URL": os.environ["VESTAL_TEST_MODEL"],
            "OPENAI_API_KEY": "none",
            "MODEL": "m",
        },
        capture_output=True,
        text=True,
    )
    assert answered.stdout == "The lantern is lit.\n", answered.stderr
    [sandbox] = client.sandboxes()
    # What the agent did is there for whoever comes next.
    assert Sandbox.open(sandbox.task, client=client).run("cat lantern").stdout == "lit\n"
