"""Aggregates of tables: a change takes the old value out and adds the new one."""

from typing import ClassVar

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import (
    UNKNOWN_MS,
    Aggregator,
    Row,
    own,
)
from barnabas.pipeline.streams.kernels.stream_aggregates import NO_KEY, Aggregation


@attrs.frozen
class TableAggregate(RowKernel):
    """The aggregate of the values of a group, of rows that `TableRegroup` made.

    The subtractor is (key, old value, aggregate) -> aggregate. An aggregate of None is a
    tombstone, and the group is forgotten.
    """

    name: ClassVar[str] = "table-aggregate"
    has_one_task: ClassVar[bool] = True
    adding: Aggregation
    subtractor: Aggregator

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the aggregate without the old value and with the new one."""
        if row.key is None:
            return NO_KEY
        aggregates = task.store("aggregates")
        before, before_ms = aggregates.pop(row.key, (None, UNKNOWN_MS))
        value, time_ms = before, row.timestamp_ms
        if row.old is not None and before is not None:
            value = self.subtractor(row.key, row.old, own(before))
            time_ms = max(time_ms, before_ms)
        if row.value is not None:
            start = self.adding.start() if value is None else value
            value = self.adding.add(row.key, row.value, start)
            time_ms = max(time_ms, before_ms)
        if value is not None:
            aggregates[row.key] = [value, time_ms]
        yield row._replace(value=value, old=before, timestamp_ms=time_ms)
        return None
