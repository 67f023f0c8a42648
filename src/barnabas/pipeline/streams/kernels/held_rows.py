"""Rows of a join that wait for unread rows of its other side.

Kafka Streams takes the record with the lowest time of all partitions that it joins, and waits for a
partition that has records which it has not read. A micro-batch has a limited number of records of
each side, so of two sides with a backlog one may be read ahead of the other in time. Its rows are
then held in the state, in the order in which they will be taken: a row is taken when each partition
that has unread records has reached it. So the results are those of one micro-batch that reads the
whole backlog.

Rows of `Side.READ` say how far partitions have been read. Micro-batches that leave nothing unread
have none of them, and hold nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, cast

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import QUEUE, BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import (
    BEHIND_ALL_MS,
    UNKNOWN_MS,
    Row,
    Side,
    Value,
    Window,
    rank_of,
)
from barnabas.pipeline.streams.kernels.paged_stores import DueQueue
from barnabas.pipeline.streams.kernels.partition_times import Lane
from barnabas.pipeline.streams.kernels.plain_data import pack, unpack

_HELD: Final = "held"

Place: TypeAlias = tuple[int, int]
"""The stream time of a row, and the rank of its side at that time."""


@attrs.frozen
class JoinedTopics:
    """The topics of the two sides of a join, whose rows are taken in the order of their times."""

    sides: Mapping[str, Sequence[Side]]
    """The sides that read each topic."""
    is_by_partition: bool
    """True when rows of a partition meet only rows of the same partition of the other side."""


def read_mark(lane: Lane, time_ms: int, newest_ms: int, *, is_unread: bool = False) -> Row:
    """Return the row that says how far a lane has been read.

    `time_ms` is its stream time, `newest_ms` the largest timestamp since the backlog began.
    """
    return Row(
        None,
        None,
        time_ms,
        Side.READ,
        lane.partition,
        offset=lane.side,
        old=lane.name.encode(),
        stream_time_ms=BEHIND_ALL_MS,
        sequence=int(is_unread),
        before_ms=newest_ms,
    )


def without_marks(ordered: list[Row]) -> list[Row]:
    """Remove the rows of `Side.READ`, which are the last ones, and return them."""
    end = len(ordered)
    while end and ordered[end - 1].side is Side.READ:
        end -= 1
    marks = ordered[end:]
    del ordered[end:]
    return marks


def has_held(bucket: BucketState) -> bool:
    """True when rows wait in a bucket."""
    return any(QUEUE + _HELD in task.stores for task in bucket.tasks.values())


class HeldRows:
    """The rows of a micro-batch that may be taken, by the marks of all lanes."""

    def __init__(self, marks: Sequence[Row], first: Side, topics: JoinedTopics) -> None:
        self._first, self._is_by_partition = first, topics.is_by_partition
        self._limits: dict[int | None, Place] = {}
        self._times_ms: dict[int | None, int] = {}
        unread = {mark.old: mark for mark in marks if mark.sequence}
        newest_ms = dict.fromkeys(unread, UNKNOWN_MS)
        for mark in marks:
            group = self._group(mark.partition)
            self._times_ms[group] = max(mark.timestamp_ms, self._times_ms.get(group, UNKNOWN_MS))
            if mark.old in unread:
                newest_ms[mark.old] = max(mark.before_ms, newest_ms[mark.old])
        for name, mark in unread.items():
            limit = (newest_ms[name], rank_of(Side(mark.offset), first))
            group = self._group(mark.partition)
            self._limits[group] = min(limit, self._limits.get(group, limit))

    def _group(self, partition: int) -> int | None:
        return partition if self._is_by_partition else None

    def times(self) -> list[Row]:
        """Return the stream times that the rows reach which may be taken."""
        found: list[Row] = []
        for group, time_ms in self._times_ms.items():
            limit_ms, _ = self._limits.get(group, (time_ms, 0))
            reached_ms = min(time_ms, limit_ms)
            if reached_ms != UNKNOWN_MS:
                time = Row(None, None, reached_ms, Side.TIME, group or 0)
                found.append(time._replace(stream_time_ms=reached_ms))
        return found

    def exchange(self, ordered: Iterable[Row], bucket: BucketState) -> list[Row]:
        """Return the rows that may be taken now, also held ones; hold the others. Times are last.

        A row has its place by stream time, then rank, as `in_stream_order` gives it.
        """
        taken: list[Row] = []
        times: list[Row] = []
        for row in ordered:
            if row.side.is_time:
                times.append(row)
                continue
            limit = self._limits.get(self._group(row.partition))
            if limit is None or self._place(row) <= limit:
                taken.append(row)
            else:
                bucket.task(row.partition).queue(_HELD).push(self._entry(row))
        for partition, task in bucket.tasks.items():
            queue = cast("DueQueue | None", task.stores.get(QUEUE + _HELD))
            if queue is None:
                continue
            limit = self._limits.get(self._group(partition))
            while queue and (limit is None or tuple(queue.first[:2]) <= limit):
                taken.append(_row(queue.pop()))
            if not queue:
                del task.stores[QUEUE + _HELD]
        taken.sort(key=lambda row: (*self._place(row), row.sequence, row.partition, row.offset))
        return taken + times

    def _place(self, row: Row) -> Place:
        return row.stream_time_ms, rank_of(row.side, self._first)

    def _entry(self, row: Row) -> list[Value]:
        content = pack(
            [
                *(row.key, row.value, row.timestamp_ms, int(row.side)),
                [list(header) for header in row.headers],
                None if row.window is None else list(row.window),
                *(row.old, row.before_ms),
            ]
        )
        return [*self._place(row), row.sequence, row.partition, row.offset, content]


def _row(entry: list[Value]) -> Row:
    stream_time_ms, _, sequence, partition, offset, content = entry
    key, value, timestamp_ms, side, headers, window, old, before_ms = unpack(content)
    return Row(
        *(key, value, timestamp_ms, Side(side), partition, offset),
        tuple((name, each) for name, each in headers),
        None if window is None else Window(*window),
        *(old, stream_time_ms, sequence, before_ms),
    )
