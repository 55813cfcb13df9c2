"""A LangChain agent whose commands run in a durable sandbox.

    pip install vestal langchain langchain-openai
    OPENAI_API_KEY=… python langchain_agent.py 'how many primes are there below 1000?'

OPENAI_BASE_URL names another server of that API, MODEL another model.
"""

from __future__ import annotations

import os
import sys

from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI

from vestal import Sandbox


def sandbox_tools(sandbox: Sandbox) -> list[BaseTool]:
    """Returns the tools of an agent that works in a sandbox."""

    @tool
    def terminal(command: str) -> str:
        """Run shell text in a durable Linux sandbox. Files, installed software, directory and variables stay."""
        result = sandbox.run(command, timeout=180, max_output=32_768)
        return f"{result.stdout}{result.stderr}[exit code {result.exit_code}]"

    @tool
    def write_file(path: str, content: str) -> str:
        """Make a text the whole content of a file in the sandbox."""
        return f"wrote {sandbox.files.write(path, content).path}"

    return [terminal, write_file]


def main() -> None:
    question = " ".join(sys.argv[1:]) or "what does this machine run?"
    # Nobody approves what the model runs: it must not be this machine itself.
    sandbox = Sandbox.open("langchain", isolated=True)
    model = ChatOpenAI(model=os.environ.get("MODEL", "gpt-5-mini"))
    agent = create_agent(model, sandbox_tools(sandbox))
    answer = agent.invoke({"messages": [{"role": "user", "content": question}]})
    print(answer["messages"][-1].text)


if __name__ == "__main__":
    main()
