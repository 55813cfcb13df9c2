"""What several tests need."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0


def until(what: str, is_so: Callable[[], object]) -> None:
    """Waits for what another process does."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)
