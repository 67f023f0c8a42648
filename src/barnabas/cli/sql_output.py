"""The output of `barnabas sql`: lines, tables, and rows as they come."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.terminal_output import print_table
from barnabas.control_characters import escape_control_characters
from barnabas.pipeline.sql import exact_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from signal import Signals
    from threading import Event

    from barnabas.pipeline.sql.shell.answer_values import RowSource

_WAIT_S = 0.2
_SPACED = (", ", ": ")


@dataclass(frozen=True)
class Line:
    """One line."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows under the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Stream:
    """Rows that come until they end or are closed; lines of text when there are no columns."""

    columns: Sequence[str] | None
    source: RowSource


Shown = Line | Table | Stream


def show(shown: Shown, *, as_json: bool) -> Signals | None:
    """Print an answer; return the signal that ended it, None at its end."""
    if isinstance(shown, Line):
        click.echo(shown.text, err=as_json)
    elif isinstance(shown, Table):
        print_table(shown.columns, shown.rows)
    else:
        return _show_stream(shown, as_json=as_json)
    return None


def _show_stream(stream: Stream, *, as_json: bool) -> Signals | None:
    from barnabas.pipeline.streams.stop_signals import stop_requests

    if stream.columns is not None and not as_json:
        click.echo(" | ".join(stream.columns))
    with stop_requests() as request:
        try:
            _show_rows(stream, request, as_json=as_json)
        except Exception:
            # A signal to the process group has ended Spark's JVM, too.
            if not request.is_set():
                raise
    return request.signal


def _show_rows(stream: Stream, request: Event, *, as_json: bool) -> None:
    try:
        while (rows := stream.source.take(_WAIT_S)) is not None:
            for row in rows:
                click.echo(_row(stream.columns, row, as_json=as_json))
            sys.stdout.flush()
            if request.is_set():
                return
    finally:
        stream.source.close()


def _row(columns: Sequence[str] | None, row: Sequence[Any], *, as_json: bool) -> str:
    """Return a row on one line; control characters are escaped, which a terminal would obey."""
    if columns is None:
        return escape_control_characters(str(row[0]))
    if as_json:
        return exact_json.dumps(dict(zip(columns, row, strict=True)), _SPACED)
    return escape_control_characters(" | ".join(_text(each) for each in row))


def _text(value: Any) -> str:
    if value is None:
        return "null"
    return value if isinstance(value, str) else exact_json.dumps(value, _SPACED)
