"""The error of a command, and its output on stderr."""

from __future__ import annotations

import sys

from barnabas.control_characters import escape_control_characters


class CliError(Exception):
    """A failure as one line: the problem, the value, and what to do."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


def complain(line: str) -> None:
    """Write one line to stderr."""
    text = escape_control_characters(" ".join(line.split()))
    print(f"barnabas: {text}", file=sys.stderr)
