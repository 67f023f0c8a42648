"""The rows that a query writes: streams, tables and DataFrames in the columns of the deliveries.

key, value          bytes
headers             names and bytes
topic, partition    the target of the row; the partition is null where the key chooses
timestamp_ms        the row's time
_topic, _partition, _offset, _kept    the record that the row comes from (forward)
"""

from typing import Final

import attrs

from barnabas.pipeline.delivery.driver import frame_sources
from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.delivery.plan.job_plan import Guarantee
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.serdes import Column, Serde, default_serde, functions
from barnabas.pipeline.streams.stream_columns import (
    HEADERS,
    KEPT,
    KEY,
    LETTER,
    PLACE,
    TIMESTAMP,
    TOPIC,
    VALUE,
    WINDOW,
)
from barnabas.pipeline.streams.topic_reading import HEADERS_TYPE, letter_headers
from barnabas.pipeline.streams.window_specs import Window, WindowKind

_LONG_DIGITS: Final = 16


class OutputError(Exception):
    """Rows cannot be written; the message names the column."""


@attrs.frozen
class Letters:
    """The topics whose dead letters are among the rows, and the app that their headers name."""

    topics: tuple[str, ...]
    app: str


@attrs.frozen
class OutputSerdes:
    """The serdes of written records; None is the one of the column's type."""

    key: Serde | None
    value: Serde | None


def of_records(
    records: Stream | Table, topic: str, serdes: OutputSerdes, letters: Letters
) -> DataFrame:
    """Return the rows of a stream or a table, with the dead letters of the topics in `letters`.

    Raises OutputError.
    """
    frame = records.frame
    columns = {
        "key": _key(frame, serdes.key, records.windows),
        "value": _encoded(frame, VALUE, serdes.value),
        "headers": _optional(frame, HEADERS, HEADERS_TYPE),
        "topic": functions().lit(topic),
        "partition": functions().lit(None).cast("int"),
        "timestamp_ms": functions().unix_millis(TIMESTAMP),
    }
    if KEPT not in frame.columns:
        return frame.select(*[column.alias(name) for name, column in columns.items()])
    return _of_source_rows(frame, columns, letters)


def of_frame(frame: DataFrame, topic: str | None) -> DataFrame:
    """Return the rows of a user's DataFrame. Raises OutputError."""
    if VALUE not in frame.columns:
        raise OutputError(
            f"the rows have no column `value`, only {', '.join(frame.columns)}: select the value, "
            "as in df.selectExpr('key', 'to_json(struct(*)) AS value')"
        )
    if topic is None and "topic" not in frame.columns:
        raise OutputError("the rows have no column `topic`, and write() names no topic")
    time = next((name for name in ("timestamp", TIMESTAMP) if name in frame.columns), None)
    is_time = time is not None
    columns = {
        "key": _encoded(frame, KEY, None) if KEY in frame.columns else _null("binary"),
        "value": _encoded(frame, VALUE, None),
        "headers": _optional(frame, "headers", HEADERS_TYPE),
        "topic": functions().col("topic") if "topic" in frame.columns else functions().lit(topic),
        "partition": _optional(frame, "partition", "int"),
        "timestamp_ms": functions().unix_millis(time) if is_time else _null("bigint"),
        KEPT: functions().lit(True),
    }
    if has_place(frame):
        columns |= {name: functions().col(name) for name in PLACE}
    return frame.select(*[column.alias(name) for name, column in columns.items()])


def has_place(frame: DataFrame) -> bool:
    """True when the rows name the records that they come from."""
    return all(name in frame.columns for name in PLACE)


def output_mode_of(
    records: Stream | Table | DataFrame, given: str | None, guarantee: Guarantee
) -> str | None:
    """Return Spark's output mode of a query, None for one whose rows stay in their task.

    Raises OutputError, ValueError.
    """
    if isinstance(records, Stream | Table):
        if given is not None:
            raise ValueError("output_mode is for DataFrames; use final() for a table")
        return records.output_mode
    if not records.isStreaming:
        raise OutputError("the DataFrame is not streaming: write it with df.write.format('kafka')")
    needs_place = guarantee is Guarantee.EXACTLY_ONCE
    if frame_sources.is_narrow(records) and (has_place(records) or not needs_place):
        return None
    return given or "update"


def _of_source_rows(frame: DataFrame, columns: dict[str, Column], letters: Letters) -> DataFrame:
    """Return rows that name their source, dead letters among them."""
    col, when = functions().col, functions().when
    kept = col(KEPT)
    if letters.topics and LETTER in frame.columns:
        is_letter = col(LETTER).isNotNull() & col(TOPIC).isin(*letters.topics)
        replaced = {
            "key": col(LETTER)["key"],
            "value": col(LETTER)["value"],
            "headers": letter_headers(letters.app),
            "topic": col(LETTER)["topic"],
        }
        columns = columns | {
            name: when(is_letter, column).otherwise(columns[name])
            for name, column in replaced.items()
        }
        kept = kept | is_letter
    written = {name: when(kept, column) for name, column in columns.items()}
    places = {name: col(name) for name in PLACE} | {KEPT: kept}
    return frame.select(*[column.alias(name) for name, column in (written | places).items()])


def _key(frame: DataFrame, serde: Serde | None, window: Window | None) -> Column:
    """Return the bytes of keys; those of windows as Kafka Streams writes them."""
    key = _encoded(frame, KEY, serde)
    if window is None or WINDOW not in frame.columns:
        return key
    bounds = functions().col(WINDOW)
    start = _long(functions().unix_millis(bounds["start"]))
    if window.kind is WindowKind.SESSION:
        return functions().concat(key, _long(functions().unix_millis(bounds["end"])), start)
    return functions().concat(key, start)


def _long(value: Column) -> Column:
    return functions().unhex(functions().lpad(functions().hex(value), _LONG_DIGITS, "0"))


def serde_of(frame: DataFrame, name: str) -> Serde | None:
    """Return the serde with which a column is written unless one is named."""
    return default_serde(frame.schema[name].dataType)


def _encoded(frame: DataFrame, name: str, serde: Serde | None) -> Column:
    """Return the bytes of a column. Raises OutputError for a type without a serde."""
    kind = frame.schema[name].dataType
    if kind.typeName() == "void":
        return _null("binary")
    chosen = serde or default_serde(kind)
    if chosen is None:
        raise OutputError(
            f"column `{name}` is {kind.simpleString()}, which has no serde: cast it to a text, a "
            "number or a struct, or name the serde in write()"
        )
    return chosen.encode(functions().col(name))


def _optional(frame: DataFrame, name: str, kind: str) -> Column:
    return functions().col(name).cast(kind) if name in frame.columns else _null(kind)


def _null(kind: str) -> Column:
    return functions().lit(None).cast(kind)
