"""Records of one topic partition as lists: those of a consumer, or rows of Spark's Kafka source.

Spark's Arrow batches are cut into runs of one partition, whose columns are lists of bytes and
numbers: those cost less to walk than rows. The columns are those of Spark's Kafka source with
headers.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import attrs

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.arrow_library import pa, pc

_LOG_APPEND: Final = 1

Headers: TypeAlias = list[tuple[str, bytes | None]]


@attrs.frozen
class PartitionRows:
    """Consecutive rows of one partition, in the order of their offsets."""

    topic: str
    partition: int
    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: list[int]
    timestamp_types: list[int]
    headers: list[Headers] | None
    """None when no row has headers."""

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def last_offset(self) -> int:
        """Return the offset of the last row."""
        return self.offsets[-1]

    def is_log_append_time(self, index: int) -> bool:
        """True when the broker set the timestamp of a row."""
        return self.timestamp_types[index] == _LOG_APPEND


def runs(batch: Any) -> Iterator[PartitionRows]:
    """Yield the rows of an Arrow batch, cut where the topic or the partition changes."""
    start = 0
    for end in ends_of_runs(batch, "topic", "partition"):
        if end > start:
            yield _rows(batch.slice(start, end - start))
        start = end


def ends_of_runs(batch: Any, *names: str) -> list[int]:
    """Return where one of the columns changes, and the number of rows."""
    columns = [batch.column(name) for name in names]
    if all(pc.count_distinct(column).as_py() <= 1 for column in columns):
        return [batch.num_rows]
    places = list(zip(*[column_list(column) for column in columns], strict=True))
    changes = [i for i in range(1, len(places)) if places[i] != places[i - 1]]
    return [*changes, len(places)]


def _rows(batch: Any) -> PartitionRows:
    microseconds = batch.column("timestamp").cast(pa.int64())
    return PartitionRows(
        batch.column("topic")[0].as_py(),
        batch.column("partition")[0].as_py(),
        column_list(batch.column("offset")),
        column_list(batch.column("key")),
        column_list(batch.column("value")),
        column_list(pc.divide(microseconds, 1000)),
        column_list(batch.column("timestampType")),
        headers_of(batch.column("headers")),
    )


def column_list(column: Any) -> list[Any]:
    """Return a column of texts, bytes or integers as a list.

    NumPy makes such a list in a tenth of the time of `to_pylist`, which creates a scalar for each
    value. Integers with nulls have no form in NumPy.
    """
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count and pa.types.is_integer(column.type):
        return column.to_pylist()
    return column.to_numpy(zero_copy_only=False).tolist()


def headers_of(column: Any) -> list[Headers] | None:
    """Return the headers of each row, None when no row has some.

    Raises TaskFailureError for a header without a key: librdkafka would write the text "None".
    """
    pairs = column.flatten()
    if not len(pairs):
        return None
    if pairs.null_count or pairs.field("key").null_count:
        raise TaskFailureError(
            "column `headers` has a header whose key is null: name it, or remove it as in "
            "filter(headers, each -> each.key IS NOT NULL)",
            is_permanent=True,
        )
    names, values = column_list(pairs.field("key")), column_list(pairs.field("value"))
    all_pairs = list(zip(names, values, strict=True))
    lengths = [length or 0 for length in pc.list_value_length(column).to_pylist()]
    found: list[Headers] = []
    start = 0
    for length in lengths:
        found.append(all_pairs[start : start + length])
        start += length
    return found
