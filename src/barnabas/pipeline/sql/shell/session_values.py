"""Settings of a session, and what a statement answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def _no_properties() -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class SessionSettings:
    """The cluster, and where state is kept; `name` is that of the script."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=_no_properties)
    name: str = "sql"
    state: Path | None = None
    master: str = "local[*]"
    spark: Mapping[str, str] = field(default_factory=_no_properties)
    registry: str = ""
    """The address of the schema registry, or an empty text."""


@dataclass(frozen=True)
class Message:
    """One line about what a statement did."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Rows of texts with the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class RowStream:
    """The rows of a query, which come until it ends or the reader stops."""

    columns: Sequence[str]
    rows: Iterator[Sequence[Any]]


Answer = Message | Listing | RowStream
