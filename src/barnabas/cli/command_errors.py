"""How a command fails, and how the person is told."""

from __future__ import annotations

import sys


class CliError(Exception):
    """A failure to tell in one line: what was wrong, with what value, what to do."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


def complain(line: str) -> None:
    """Write one line to stderr."""
    print(f"barnabas: {' '.join(line.split())}", file=sys.stderr)
