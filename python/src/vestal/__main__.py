"""``python -m vestal``: the program ``vestal``."""

from __future__ import annotations

import os
import sys

from ._program import find_program, not_started
from .errors import VestalError


def main() -> int:
    """Becomes the program."""
    try:
        program = find_program()
        try:
            os.execv(program, [program, *sys.argv[1:]])
        except OSError as error:
            raise not_started(program, error) from error
    except VestalError as error:
        print(f"vestal: {error}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())
