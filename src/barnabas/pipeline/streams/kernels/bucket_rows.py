"""Rows of kernels as columns of DataFrames, both ways.

A frame for `bucketed` has at least `key` and `value` (binary) and a time. The other columns have
defaults: they are those of `COLUMNS`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS, Headers, Row, Side, Window

COLUMNS: Final[Mapping[str, tuple[str, Any]]] = {
    "key": ("binary", None),
    "value": ("binary", None),
    "timestamp_ms": ("bigint", 0),
    "side": ("int", int(Side.LEFT)),
    "partition": ("int", 0),
    "offset": ("bigint", 0),
    "headers": ("array<struct<key:string,value:binary>>", None),
    "window_start_ms": ("bigint", None),
    "window_end_ms": ("bigint", None),
    "old": ("binary", None),
    "stream_time_ms": ("bigint", UNKNOWN_MS),
    "sequence": ("int", 0),
    "before_ms": ("bigint", UNKNOWN_MS),
}
"""Spark's type of each column, and its value where a frame lacks it."""

SCHEMA: Final = ", ".join(f"`{name}` {kind}" for name, (kind, _) in COLUMNS.items())


def rows_of(columns: Mapping[str, Sequence[Any]]) -> Iterator[Row]:
    """Yield the rows of columns, which are lists of Python's values by name."""
    sides = [Side(side) for side in columns["side"]]
    windows = map(_window, columns["window_start_ms"], columns["window_end_ms"])
    headers = map(_headers, columns["headers"])
    return map(
        Row,
        columns["key"],
        columns["value"],
        columns["timestamp_ms"],
        sides,
        columns["partition"],
        columns["offset"],
        headers,
        windows,
        columns["old"],
        columns["stream_time_ms"],
        columns["sequence"],
        columns["before_ms"],
    )


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return the columns of rows, as lists of Python's values by name."""
    return {
        "key": [row.key for row in rows],
        "value": [row.value for row in rows],
        "timestamp_ms": [row.timestamp_ms for row in rows],
        "side": [int(row.side) for row in rows],
        "partition": [row.partition for row in rows],
        "offset": [row.offset for row in rows],
        "headers": [_pairs(row.headers) for row in rows],
        "window_start_ms": [None if row.window is None else row.window[0] for row in rows],
        "window_end_ms": [None if row.window is None else row.window[1] for row in rows],
        "old": [row.old for row in rows],
        "stream_time_ms": [row.stream_time_ms for row in rows],
        "sequence": [row.sequence for row in rows],
        "before_ms": [row.before_ms for row in rows],
    }


def _window(start_ms: float | None, end_ms: float | None) -> Window | None:
    if start_ms is None or end_ms is None or start_ms != start_ms:  # pandas has NaN for null
        return None
    return Window(int(start_ms), int(end_ms))


def _headers(found: Any) -> Headers:
    if found is None:
        return ()
    return tuple((header["key"], header["value"]) for header in found)


def _pairs(headers: Headers) -> list[dict[str, Any]] | None:
    return [{"key": name, "value": value} for name, value in headers] if headers else None
