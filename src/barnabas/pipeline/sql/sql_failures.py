"""Errors of SQL: one sentence, with the line and the column of what was wrong."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class SqlError(ValueError):
    """A statement that cannot be understood; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column


class AssertionFailedError(SqlError):
    """An ASSERT whose condition did not become true in time."""


class UnresolvedError(ValueError):
    """A name or a type that does not fit; the statement's line and column are added above it."""


def position(text: str, offset: int) -> tuple[int, int]:
    """Return the line and the column, both from 1, of an offset in a text."""
    start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, offset - start + 1


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name nearest to this one, or an empty text."""
    found = get_close_matches(name.upper(), list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
