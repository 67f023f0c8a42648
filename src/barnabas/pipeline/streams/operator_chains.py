"""Operators with state in a chain: the second one reads a topic that the first one writes.

A query of Spark has one operator with state here. The records of the first operator pass a topic of
the app, as they pass a repartition topic in Kafka Streams, and another query has the second
operator. A record of such a topic has the bytes of the key, which choose the partition, and its
value is JSON that keeps all columns:

    k   the key
    v   the value, null for none
    t   the time, with its microseconds
    w   the window of a windowed key
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.streams.operator_errors import OperatorError
from barnabas.pipeline.streams.serdes import Column, default_serde, functions
from barnabas.pipeline.streams.stream_columns import (
    HEADERS,
    KEPT,
    KEY,
    PLACE,
    TIMESTAMP,
    VALUE,
    WINDOW,
)
from barnabas.pipeline.streams.topic_reading import TopicInput

_FIELDS: Final = {"k": KEY, "v": VALUE, "t": TIMESTAMP, "w": WINDOW}
_PARSED: Final = "_parsed"
# Times keep their microseconds, and times of zones with an offset in seconds are right.
_JSON: Final = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@attrs.frozen(eq=False)
class ChainedRecords:
    """Records that an operator with state made, or those behind the topic that they pass."""

    frame: DataFrame = attrs.field(repr=False)
    inputs: tuple[TopicInput, ...]
    output_mode: str | None = None
    """Spark's output mode of the operator; None behind the topic."""
    joined_topics: tuple[tuple[str, ...], ...] = ()
    """The topics of both sides of a join, whose partitions must be the same in number."""


Chain: TypeAlias = Callable[[str, ChainedRecords], ChainedRecords]
"""Has an app write records to a topic of a name, and returns the records behind the topic."""


def behind_topic(
    chain: Chain | None, operator: str, name: str, records: ChainedRecords
) -> ChainedRecords:
    """Return the records behind a topic. Raises OperatorError where no app writes one."""
    if chain is None:
        raise OperatorError(
            f"{operator} follows another operator with state: write its result to a topic, "
            "and read that with App.topic or App.table"
        )
    return chain(name, records)


def written(frame: DataFrame) -> DataFrame:
    """Return records as they are written to a topic between two operators."""
    col = functions().col
    fields = [col(name).alias(field) for field, name in _fields(frame)]
    columns = {
        KEY: _key_bytes(frame),
        VALUE: functions().to_json(functions().struct(*fields), _JSON).cast("binary"),
        TIMESTAMP: col(TIMESTAMP),
    }
    if HEADERS in frame.columns:
        columns[HEADERS] = col(HEADERS)
    return frame.select(*[column.alias(name) for name, column in columns.items()])


def restored(rows: DataFrame, frame: DataFrame) -> DataFrame:
    """Return the records of a topic in the columns of the frame that was written to it."""
    col, types = functions().col, pyspark("sql.types")
    kind = types.StructType(
        [types.StructField(field, frame.schema[name].dataType) for field, name in _fields(frame)]
    )
    parsed = functions().from_json(col(VALUE).cast("string"), kind, {**_JSON, "mode": "FAILFAST"})
    columns = {name: col(_PARSED)[field] for field, name in _fields(frame)}
    columns[TIMESTAMP] = functions().coalesce(columns[TIMESTAMP], col(TIMESTAMP))
    columns |= {name: col(name) for name in (*PLACE, HEADERS, KEPT)}
    found = rows.withColumn(_PARSED, parsed)
    return found.select(*[column.alias(name) for name, column in columns.items()])


def _fields(frame: DataFrame) -> list[tuple[str, str]]:
    """Return the fields of the JSON, and the columns that they have."""
    return [(field, name) for field, name in _FIELDS.items() if name in frame.columns]


def _key_bytes(frame: DataFrame) -> Column:
    """Return the bytes of the key: those of its type's serde, JSON for a type without one."""
    kind, key = frame.schema[KEY].dataType, functions().col(KEY)
    serde = default_serde(kind)
    if serde is not None:
        return serde.encode(key)
    text = functions().to_json(functions().struct(key.alias("k")), _JSON).cast("binary")
    return functions().when(key.isNotNull(), text)
