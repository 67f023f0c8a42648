"""The columns of a sink's rows: those of Spark's own Kafka sink, and the timestamp."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas.pipeline.delivery.rows.arrow_library import pa, pc
from barnabas.pipeline.delivery.rows.arrow_rows import column_list, headers_of
from barnabas.pipeline.sink.sink_errors import SinkColumnError

_HEADERS: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": (_HEADERS,),
    "timestamp": ("timestamp",),
}
_PER_MS: Final = 1000

Row = tuple[str | None, Any, Any, int | None, int | None, list[tuple[str, bytes | None]] | None]
"""Topic, value, key, partition, timestamp in ms, headers."""


def check(types: Mapping[str, str], topic: str | None) -> None:
    """Raise SinkColumnError unless the columns, given by name with Spark's types, fit records."""
    if "value" not in types:
        raise SinkColumnError(
            f"column `value` is missing, the rows have {', '.join(types) or 'no column'}: select "
            "it, as in df.selectExpr('CAST(id AS STRING) AS key', 'to_json(struct(*)) AS value')"
        )
    for name, accepted in _TYPES.items():
        if name in types and types[name] not in accepted:
            raise SinkColumnError(
                f"column `{name}` has the type {types[name]}: cast it to {' or '.join(accepted)}"
            )
    if topic is None and "topic" not in types:
        raise SinkColumnError(
            "the rows have no topic: set the option `topic`, or add a column `topic`"
        )


def rows_of(batch: Any, topic: str | None) -> Iterator[Row]:
    """Yield the records of an Arrow batch.

    Raises SinkColumnError for a row without a topic, or with a negative partition, and
    TaskFailureError for a header without a key.
    """
    count = batch.num_rows
    names = set(batch.schema.names)
    nothing: list[None] = [None] * count

    def column(name: str) -> list[Any]:
        return column_list(batch.column(name)) if name in names else nothing

    topics: list[Any] = [topic] * count if topic is not None else column("topic")
    if None in topics:
        raise SinkColumnError(
            f"column `topic` is null in {topics.count(None)} of {count} rows: name the topic of "
            "each row, or set the option `topic`"
        )
    least = pc.min(batch.column("partition")).as_py() if "partition" in names else None
    if least is not None and least < 0:
        raise SinkColumnError(
            f"column `partition` is {least} in a row: use null where the key chooses the partition"
        )
    times: list[Any] = nothing
    if "timestamp" in names:
        micros = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        times = pc.floor(pc.divide(pc.cast(micros, pa.float64()), _PER_MS)).to_pylist()
        times = [None if time is None else int(time) for time in times]
    headers = (headers_of(batch.column("headers")) if "headers" in names else None) or nothing
    yield from zip(
        topics, column("value"), column("key"), column("partition"), times, headers, strict=True
    )
