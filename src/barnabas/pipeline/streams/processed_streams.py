"""Processors that users write: they get and return records, and keep state and timers.

A processor sees keys and values as Python's values. It runs as a kernel: its stores are part of the
state of a bucket of keys.
"""

import json
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Final, Protocol

import attrs

from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.streams.kernel_frames import (
    PARTITIONS,
    kernel_input,
    kernel_output,
    key_serde,
    packed,
    unpacked,
)
from barnabas.pipeline.streams.kernels import user_kernels
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from barnabas.pipeline.streams.kernels.user_kernels import Process
from barnabas.pipeline.streams.serde_codecs import codec_of
from barnabas.pipeline.streams.serdes import Column, DataType, functions
from barnabas.pipeline.streams.stream_columns import HEADERS, KEY, TIMESTAMP, VALUE
from barnabas.pipeline.streams.user_functions import called
from barnabas.pipeline.streams.wall_clock import ticks
from barnabas.pipeline.views.live_view import Codec

_BINARY: Final = "binary"


@attrs.frozen
class Record:
    """A record that a processor takes or returns. Structs are dictionaries, times in them text."""

    key: Any
    value: Any
    timestamp: int | None = None
    """Milliseconds since 1970. None in a result: the time of the record, or of the punctuation."""
    headers: tuple[tuple[str, bytes | None], ...] = ()


@attrs.frozen
class ProcessContext:
    """The stores and the stream time of the keys that a processor works on."""

    _context: user_kernels.ProcessContext

    @property
    def stream_time(self) -> int:
        """Return the largest timestamp of the partition so far, in milliseconds since 1970."""
        return self._context.stream_time_ms

    def store(self, name: str) -> MutableMapping[Any, Any]:
        """Return a store, which is empty at first: a dict of plain data.

        Keys are text, integers or bytes; values are None, bool, int, float, str, bytes, Decimal,
        lists and dicts. A store is shared by some keys of the stream, not by all of them: name its
        entries by the key of the record.
        """
        return self._context.store(name)


class Processor(Protocol):
    """A processor of a user, for `Stream.process`.

    All that it remembers is in the stores of the context. Spark may repeat a micro-batch, and makes
    a copy of the processor for each task, so its own attributes must not change.
    """

    def process(self, record: Record, context: ProcessContext) -> Iterable[Record] | None:
        """Return the results of a record."""
        ...


def processed(
    frame: DataFrame,
    process: Process,
    *,
    key: DataType,
    value: DataType,
    has_new_keys: bool,
    wall_clock_ms: int | None = None,
) -> DataFrame:
    """Return the results of a kernel that `kernel_of` made, with keys and values of these types.

    With `wall_clock_ms`, the kernel takes the wall clock each time that a multiple is reached.
    """
    col = functions().col
    is_binary = frame.schema[VALUE].dataType.typeName() == _BINARY
    rows = kernel_input(frame, col(VALUE) if is_binary else packed({"v": col(VALUE)}))
    partitions = PARTITIONS if has_new_keys else None
    clock = None if wall_clock_ms is None else ticks(frame.sparkSession, wall_clock_ms)
    outputs = kernel_output(rows, process, key, partitions=partitions, clock=clock)
    return outputs.select(KEY, _value(value).alias(VALUE), TIMESTAMP, HEADERS)


def kernel_of(
    processor: Processor,
    frame: DataFrame,
    *,
    key: DataType,
    value: DataType,
    state: str,
    version: int,
    every_ms: int | None,
) -> Process:
    """Return the kernel of a processor for the records of a frame. Raises KeyTypeError."""
    adapter = RecordProcessor(
        processor,
        codec_of(key_serde(frame.schema[KEY].dataType)),
        codec_of(key_serde(key)),
        frame.schema[VALUE].dataType.typeName() == _BINARY,
        value.typeName() == _BINARY,
    )
    return Process(adapter, state, version, every_ms)


def _value(kind: DataType) -> Column:
    data = functions().col(VALUE)
    return data if kind.typeName() == _BINARY else unpacked(data, v=kind)["v"]


@attrs.frozen
class RecordProcessor:
    """A user's processor for a kernel, which takes and returns bytes."""

    processor: Processor
    key_in: Codec
    key_out: Codec
    takes_bytes: bool
    returns_bytes: bool

    def process(self, row: Row, context: user_kernels.ProcessContext) -> Iterable[Row]:
        """Return the results of a row. Raises TaskFailureError."""
        record = Record(
            None if row.key is None else self.key_in.decode(row.key),
            self._decoded(row.value),
            row.timestamp_ms,
            tuple(row.headers),
        )
        return self._run(self.processor.process, row, record, ProcessContext(context))

    def punctuate(self, row: Row, context: user_kernels.ProcessContext) -> Iterable[Row]:
        """Return the results of a point of stream time. Raises TaskFailureError."""
        punctuate = getattr(self.processor, "punctuate")  # noqa: B009 - it is optional
        timed = row._replace(timestamp_ms=context.stream_time_ms)
        return self._run(punctuate, timed, ProcessContext(context))

    def punctuate_wall_clock(self, row: Row, context: user_kernels.ProcessContext) -> Iterable[Row]:
        """Return the results of a point of the wall clock. Raises TaskFailureError."""
        punctuate = getattr(self.processor, "punctuate_wall_clock")  # noqa: B009 - it is optional
        return self._run(punctuate, row, row.timestamp_ms, ProcessContext(context))

    def _run(self, function: Callable[..., Any], row: Row, *arguments: Any) -> list[Row]:
        def run() -> list[Row]:
            return [self._row(row, each) for each in function(*arguments) or ()]

        run.__qualname__ = function.__qualname__
        return called(run, row.key)

    def _row(self, row: Row, record: Any) -> Row:
        """Return the row of a result. Raises ValueError, TypeError."""
        if not isinstance(record, Record):
            raise TypeError(f"it returned {record!r}, which is not a Record")
        return row._replace(
            key=None if record.key is None else self.key_out.encode(record.key),
            value=self._encoded(record.value),
            timestamp_ms=row.timestamp_ms if record.timestamp is None else record.timestamp,
            headers=record.headers,
            side=Side.LEFT,
        )

    def _decoded(self, data: bytes | None) -> Any:
        return data if data is None or self.takes_bytes else json.loads(data)["v"]

    def _encoded(self, value: Any) -> bytes | None:
        if value is None:
            return None
        if not self.returns_bytes:
            return json.dumps({"v": value}, separators=(",", ":")).encode()
        if not isinstance(value, bytes):
            raise TypeError(f"it returned the value {value!r}, which is not bytes")
        return value
