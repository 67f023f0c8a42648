"""Offsets that a running query skipped because retention deleted them, counted from its reports.

A query whose tasks do not commit offsets cannot compare rows with positions, as `trimmed_offsets`
does. Spark reports the offsets that a batch was planned for, and the tasks report the number of
records that they read. An offset of the plan without a record was deleted when it is before the log
start offset; control records, aborted records and records that compaction removed are missing as
well. So a batch skipped as many offsets as are both missing and before the log start offset.

The number is exact, except for a batch in which offsets of the second kind are missing and for
which retention deletes records after they were read and before this is counted: it may then be too
large by their number.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from barnabas.pipeline.delivery.driver.query_progress import BatchProgress

Partition: TypeAlias = tuple[str, int]


@attrs.frozen
class _Planned:
    """A batch that has read fewer records than it was planned for."""

    ranges: Mapping[Partition, tuple[int, int]]
    missing: int


class SkippedBatches:
    """Counts for one query. `starts` are its first offsets; it skipped what is before them."""

    def __init__(
        self,
        starts: Mapping[Partition, int],
        log_starts: Callable[[Sequence[Partition]], Mapping[Partition, int]],
    ) -> None:
        """Take what reads log start offsets; it may raise an exception."""
        self._next = dict(starts)
        self._log_starts = log_starts
        self._planned: list[_Planned] = []

    def add(self, batch: BatchProgress) -> None:
        """Take the report of a batch.

        A report without figures is of an idle query, or of a batch that an earlier run has written:
        Spark's sink skips it.
        """
        if not batch.figures:
            return
        ranges: dict[Partition, tuple[int, int]] = {}
        for each in batch.lag:
            where = (each.topic, each.partition)
            following = self._next.get(where)
            start = batch.starts.get(where, following)
            if start is not None:  # else Spark found the partition now, and begins at its start
                start = max(start, following or 0)
                ranges[where] = (start, max(start, each.position))
            self._next[where] = max(each.position, following or 0)
        records = batch.figures.get("records") or 0
        missing = sum(end - start for start, end in ranges.values()) - records
        if missing > 0:
            self._planned.append(_Planned(ranges, missing))

    def take(self) -> int:
        """Return the number of skipped offsets since the last call.

        What `log_starts` raises passes through; the next call counts those batches then.
        """
        if not self._planned:
            return 0
        starts = self._log_starts(sorted({each for one in self._planned for each in one.ranges}))
        skipped = sum(
            min(
                batch.missing,
                sum(
                    max(0, min(end, starts[where]) - start)
                    for where, (start, end) in batch.ranges.items()
                ),
            )
            for batch in self._planned
        )
        self._planned.clear()
        return skipped
