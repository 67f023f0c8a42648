"""Rows of a user's query, each with the source record that it comes from, by source partition.

The columns are those of `streams.output_frames`. Rows that a filter removed are among them: they
are not written, but the offset that is committed comes after them.

Columns that have one value in all rows of a job are left out: each costs Spark a value for each
row. `_topic` is missing where the job reads one topic, `topic` and `partition` where all rows go to
one topic, in which their keys choose the partition.
"""

from collections.abc import Iterator
from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.rows.arrow_library import pa, pc
from barnabas.pipeline.delivery.rows.arrow_rows import column_list, ends_of_runs, headers_of

SOURCE_TOPIC: Final = "_topic"
TARGET: Final = ("topic", "partition")
_BY_KEY: Final = -1


@attrs.frozen
class FrameRows:
    """Consecutive rows of one source partition, in the order of their offsets."""

    topic: str
    partition: int
    batch: Any = attrs.field(repr=False)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def where(self) -> tuple[str, int]:
        """Return the topic and the partition."""
        return self.topic, self.partition

    @property
    def first_offset(self) -> int:
        """Return the offset of the first row's record."""
        return int(self.batch.column("_offset")[0].as_py())

    @property
    def last_offset(self) -> int:
        """Return the offset of the last row's record."""
        return int(self.batch.column("_offset")[len(self) - 1].as_py())

    @property
    def offsets(self) -> list[int]:
        """Return the offset of each row's record."""
        return column_list(self.batch.column("_offset"))

    @property
    def oldest_ms(self) -> int | None:
        """Return the lowest timestamp of rows that are written, None without one."""
        found = pc.min(self.batch.column("timestamp_ms")).as_py()
        return None if found is None else int(found)

    def after(self, offset: int) -> "FrameRows":
        """Return the rows at `offset` and after it."""
        if self.first_offset >= offset:
            return self
        is_behind = pc.greater_equal(self.batch.column("_offset"), pa.scalar(offset, pa.int64()))
        return FrameRows(self.topic, self.partition, self.batch.filter(is_behind))

    def written(self) -> "WrittenRows":
        """Return the rows that no filter removed."""
        is_kept = self.batch.column("_kept")
        has_all = pc.all(is_kept, skip_nulls=False).as_py()
        return WrittenRows(self.batch if has_all else self.batch.filter(is_kept))


class WrittenRows:
    """Rows on their way to topics, as lists of columns."""

    def __init__(self, batch: Any) -> None:
        names = batch.schema.names
        is_one_target = TARGET[0] not in names
        self.targets: list[str] | None = (
            None if is_one_target else column_list(batch.column("topic"))
        )
        self.values: list[bytes | None] = column_list(batch.column("value"))
        self.keys: list[bytes | None] = column_list(batch.column("key"))
        self.partitions: list[int] | None = (
            None if is_one_target else _filled(batch.column("partition"), _BY_KEY)
        )
        self.timestamps_ms: list[int] = _filled(batch.column("timestamp_ms"), 0)
        self.headers = headers_of(batch.column("headers"))
        self._offsets = batch.column("_offset")

    def __len__(self) -> int:
        return len(self.values)

    def offset(self, index: int) -> int:
        """Return the offset of a row's record."""
        return int(self._offsets[index].as_py())


def _filled(column: Any, default: int) -> list[int]:
    return column_list(column.fill_null(default) if column.null_count else column)


def frame_runs(batch: Any, source: str) -> Iterator[FrameRows]:
    """Yield the rows of an Arrow batch, cut where the source partition changes.

    `source` is the topic of rows without a column for it.
    """
    has_topics = SOURCE_TOPIC in batch.schema.names
    start = 0
    for end in ends_of_runs(batch, *([SOURCE_TOPIC] if has_topics else []), "_partition"):
        if end > start:
            rows = batch.slice(start, end - start)
            topic = rows.column(SOURCE_TOPIC)[0].as_py() if has_topics else source
            yield FrameRows(topic, rows.column("_partition")[0].as_py(), rows)
        start = end
