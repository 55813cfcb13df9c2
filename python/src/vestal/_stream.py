"""Output as it comes, from the thread that reads to whoever iterates."""

from __future__ import annotations

import codecs
from typing import Any

from ._calls import WINDOW
from ._connection import Connection, Json, Pending
from .results import Chunk


class Ledger:
    """Counts what is taken, so that the program sends more, and half characters and lines."""

    def __init__(self, connection: Connection, pending: Pending) -> None:
        self._connection = connection
        self._pending = pending
        self._taken = 0
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: decoder("replace") for name in ("stdout", "stderr")}
        self._rests = {"stdout": "", "stderr": ""}

    def chunk(self, event: Json) -> Chunk | None:
        """Returns the output that an event brings."""
        if event["type"] != "job.output":
            return None
        chunk = Chunk.from_json(event)
        self._taken += len(chunk.data)
        # Seldom, and before the program has to wait.
        if self._taken >= WINDOW // 2:
            self._connection.grant(self._pending, self._taken)
            self._taken = 0
        return chunk

    def lines(self, chunk: Chunk) -> list[str]:
        """Returns the lines that a chunk ends, without their ends."""
        text = self._rests[chunk.stream] + self._decoders[chunk.stream].decode(chunk.data)
        *whole, self._rests[chunk.stream] = text.split("\n")
        return whole

    def last_lines(self) -> list[str]:
        """Returns what no newline has ended."""
        rests = [
            self._rests[name] + self._decoders[name].decode(b"", True) for name in ("stdout", "stderr")
        ]
        self._rests = {"stdout": "", "stderr": ""}
        return [rest for rest in rests if rest]


def is_end(event: dict[str, Any]) -> bool:
    """Returns whether nothing follows an event."""
    return bool(event["type"] == "end")
