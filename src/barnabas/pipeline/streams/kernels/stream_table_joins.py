"""A stream with a table: each row of the stream looks up the table's value of that time.

Rows of the table change the table and yield nothing. Rows of the stream change nothing.
"""

from collections.abc import Callable
from typing import ClassVar

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import Store, TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import Joiner, Row, Side, Value
from barnabas.pipeline.streams.kernels.stream_aggregates import NO_KEY, NO_VALUE


@attrs.frozen
class StreamTableJoin(RowKernel):
    """Rows of the left stream with the value of their key in the right table.

    An inner join drops rows without key. A left join joins them with None. Both drop rows without
    value.
    """

    name: ClassVar[str] = "stream-table-join"
    first: ClassVar[Side] = Side.RIGHT
    has_one_task: ClassVar[bool] = True
    joiner: Joiner
    is_left: bool = False

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Change the table, or yield the row with the table's value."""
        return _join(row, task, self.joiner, _key_of, is_left=self.is_left)


@attrs.frozen
class GlobalTableJoin(RowKernel):
    """Rows of the left stream with the entry of the right table that `key_of` names.

    An inner join drops rows of which `key_of` is None, a left join joins them with None. The query
    hashes rows of the stream by `key_of`, so a bucket needs its share of the table only; a row of
    the stream and its entry may be of different partitions.
    """

    name: ClassVar[str] = "global-table-join"
    first: ClassVar[Side] = Side.RIGHT
    has_one_task: ClassVar[bool] = True
    joiner: Joiner
    key_of: Callable[[bytes | None, Value], bytes | None]
    is_left: bool = False

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Change the table, or yield the row with the table's value."""
        return _join(row, task, self.joiner, self.key_of, is_left=self.is_left)


def _key_of(key: bytes | None, _: Value) -> bytes | None:
    return key


def _join(
    row: Row,
    task: TaskState,
    joiner: Joiner,
    key_of: Callable[[bytes | None, Value], bytes | None],
    *,
    is_left: bool,
) -> RowSteps:
    table = task.store("table")
    if row.side is Side.RIGHT:
        return _change(table, row)
    if row.value is None:
        return NO_VALUE
    wanted = key_of(row.key, row.value)
    if wanted is None and not is_left:
        return NO_KEY
    found = None if wanted is None else table.get(wanted)
    if found is not None or is_left:
        yield row._replace(value=joiner(row.key, row.value, found), old=None)
    return None


def _change(table: Store, row: Row) -> str | None:
    """Apply a row to a table; return the reason when it was dropped."""
    if row.key is None:
        return NO_KEY
    if row.value is None:
        table.pop(row.key, None)
    else:
        table[row.key] = row.value
    return None
