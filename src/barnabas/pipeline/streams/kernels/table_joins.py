"""Two tables joined by key: a change of either is a change of the result."""

import enum
from collections.abc import Mapping
from typing import ClassVar

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS, Joiner, Row, Side, Value
from barnabas.pipeline.streams.kernels.stream_aggregates import NO_KEY


class JoinKind(enum.Enum):
    """The keys that a join has: those of both sides, of the left side, or of either."""

    INNER = "inner"
    LEFT = "left"
    OUTER = "outer"

    def needs(self, side: Side) -> bool:
        """True when a result needs a value of this side."""
        return self is JoinKind.INNER or (self is JoinKind.LEFT and side is Side.LEFT)


@attrs.frozen
class TableJoin(RowKernel):
    """Changes of the join of two tables. Rows without key are dropped.

    A side that a result may lack is None for the joiner. A change where neither side had or has
    a result yields nothing; a change where the other side has a value always yields a row, so a
    tombstone of an unknown key yields a tombstone, as in Kafka Streams.
    """

    name: ClassVar[str] = "table-join"
    has_one_task: ClassVar[bool] = True
    joiner: Joiner
    kind: JoinKind = JoinKind.INNER

    def settings(self) -> Mapping[str, Value]:
        """Return nothing: both tables are kept alike for each kind."""
        return {}

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the change of the result."""
        if row.key is None:
            return NO_KEY
        other = Side.LEFT if row.side is Side.RIGHT else Side.RIGHT
        table = task.store(row.side.name)
        before, _ = table.pop(row.key, (None, UNKNOWN_MS))
        if row.value is not None:
            table[row.key] = [row.value, row.timestamp_ms]
        found, found_ms = task.store(other.name).get(row.key, (None, UNKNOWN_MS))
        if found is None and (self.kind.needs(other) or (row.value is None and before is None)):
            return None
        yield row._replace(
            value=self._result(row, row.value, found),
            old=self._result(row, before, found),
            timestamp_ms=max(row.timestamp_ms, found_ms),
            side=Side.LEFT,
        )
        return None

    def _result(self, row: Row, value: Value, found: Value) -> Value:
        if (value is None and self.kind.needs(row.side)) or (value is None and found is None):
            return None
        if row.side is Side.LEFT:
            return self.joiner(row.key, value, found)
        return self.joiner(row.key, found, value)
