"""Tables from topics, and regrouped: changes with their old values."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Timed, Value, identity
from barnabas.pipeline.streams.kernels.stream_aggregates import NO_KEY

Grouper: TypeAlias = Callable[[bytes | None, Value], tuple[bytes | None, Value]]
"""(key, value) -> (key of the group, value)."""


@attrs.frozen
class TableSource(RowKernel):
    """A topic read as a table: each row gets the value that it replaces.

    Rows without key are dropped. The last row counts, by offset: a row with an older timestamp
    replaces a newer one.
    """

    name: ClassVar[str] = "table"
    timed: ClassVar[Timed] = Timed.KEYED
    has_one_task: ClassVar[bool] = True

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the row with its old value."""
        if row.key is None:
            return NO_KEY
        table, name = task.store("table"), identity(row)
        old = table.pop(name, None)
        if row.value is not None:
            table[name] = row.value
        yield row._replace(old=old)
        return None


@attrs.frozen
class TableRegroup(RowKernel):
    """Changes of a table as changes of groups, for `TableAggregate` after a shuffle by group.

    A change that moves from one group to another yields two rows: first one that takes the old
    value out, then one that brings the new value. Where the group or the value is None, nothing is
    yielded.
    """

    name: ClassVar[str] = "table-regroup"
    has_one_task: ClassVar[bool] = True
    grouper: Grouper

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the changes of groups."""
        if row.key is None:
            return NO_KEY
        old_group, old = self._grouped(row.key, row.old)
        group, value = self._grouped(row.key, row.value)
        if old_group is not None and old_group == group:
            yield row._replace(key=group, value=value, old=old, window=None)
            return None
        if old_group is not None:
            yield row._replace(key=old_group, value=None, old=old, window=None)
        if group is not None:
            yield row._replace(key=group, value=value, old=None, window=None)
        return None

    def _grouped(self, key: bytes, value: Value) -> tuple[bytes | None, Value]:
        """Return the group and the value in it; None and None without either."""
        if value is None:
            return None, None
        group, mapped = self.grouper(key, value)
        return (None, None) if group is None or mapped is None else (group, mapped)
