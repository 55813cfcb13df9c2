"""An agent of the OpenAI Agents SDK whose commands run in a durable sandbox.

    pip install vestal openai-agents
    OPENAI_API_KEY=… python openai_agent.py 'how many primes are there below 1000?'

OPENAI_BASE_URL names another server of that API, MODEL another model.
"""

from __future__ import annotations

import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from vestal import aio


async def main() -> None:
    question = " ".join(sys.argv[1:]) or "what does this machine run?"
    # Nobody approves what the model runs: it must not be this machine itself.
    sandbox = await aio.Sandbox.open("openai-agents", isolated=True)

    @function_tool
    async def terminal(command: str) -> str:
        """Run shell text in a durable Linux sandbox. Files, installed software, directory and variables stay."""
        result = await sandbox.run(command, timeout=180, max_output=32_768)
        return f"{result.stdout}{result.stderr}[exit code {result.exit_code}]"

    set_tracing_disabled(True)
    model = os.environ.get("MODEL", "gpt-5-mini")
    agent = Agent(
        name="worker",
        instructions="You work in a Linux sandbox that keeps everything. Use the terminal.",
        tools=[terminal],
        model=OpenAIChatCompletionsModel(model=model, openai_client=AsyncOpenAI()),
    )
    result = await Runner.run(agent, question)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
