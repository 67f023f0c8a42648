"""Tables: the newest value of each key, as a stream of changes."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeAlias

import attrs

from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.streams import topology_operators
from barnabas.pipeline.streams.folded_groups import GROUP, suppressed
from barnabas.pipeline.streams.joined_tables import table_with_table, tables_by_foreign_key
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel
from barnabas.pipeline.streams.kernels.suppression import until_time_limit, until_window_closes
from barnabas.pipeline.streams.kernels.table_joins import JoinKind
from barnabas.pipeline.streams.operator_chains import ChainedRecords, behind_topic
from barnabas.pipeline.streams.operator_errors import OperatorError, check_plain_keys
from barnabas.pipeline.streams.serdes import functions
from barnabas.pipeline.streams.stream_columns import (
    OLD,
    VALUE,
    Expression,
    column,
    evaluated,
    visible,
)
from barnabas.pipeline.streams.topic_reading import TopicInput
from barnabas.pipeline.streams.topology_nodes import TopologyNode, detached
from barnabas.pipeline.streams.window_specs import Duration, Window, WindowKind, duration_ms

if TYPE_CHECKING:
    from barnabas.pipeline.streams.grouped_table import GroupedTable
    from barnabas.pipeline.streams.record_stream import Stream

Followed: TypeAlias = Callable[[RowKernel], DataFrame]


@attrs.frozen(eq=False)
class Table:
    """Changes of keys: a value replaces the one before it, null deletes the key.

    Made by `App.table` from a compacted topic, and by aggregates.
    """

    frame: DataFrame = attrs.field(repr=False)
    inputs: tuple[TopicInput, ...]
    output_mode: str | None = None
    windows: Window | None = None
    """The windows of the keys, None for plain keys."""
    followed: Followed | None = attrs.field(default=None, repr=False)
    """Returns the changes of this table after one more kernel; None where none fits."""
    closed: Callable[[], DataFrame] | None = attrs.field(default=None, repr=False)
    """Returns the rows of closed windows, where that costs less than a kernel that follows."""
    changes: Callable[[], DataFrame] | None = attrs.field(default=None, repr=False)
    """Returns the changes with the values that they replace, in the column OLD; None without."""
    node: TopologyNode = attrs.field(factory=detached, repr=False)
    """The place in the topology that `App.describe` prints."""

    @property
    def df(self) -> DataFrame:
        """Return the changes as a streaming DataFrame of Spark."""
        return visible(self.frame)

    def filter(self, predicate: Expression, *, is_lasting: bool = False) -> Self:
        """Keep the keys for which `predicate` is true; the others are deleted (null values).

        Behind a fold, a key that did not pass before its change is left out, since there is nothing
        to delete. In other tables the old value is not known. `is_lasting` says that a key which
        has passed always passes, as with `value > 3` of counts: then all changes that do not pass
        are left out.
        """
        condition = column(self.frame, predicate, "BOOLEAN")
        if is_lasting:
            passing = functions().col(VALUE).isNull() | condition
            table = self._mapped(
                "KTABLE-FILTER-", lambda frame: self._of(frame).filter(passing).frame
            )
            return attrs.evolve(table, changes=None)
        kept = functions().when(condition, functions().col(VALUE))
        table = self._mapped("KTABLE-FILTER-", lambda frame: evaluated(frame, {VALUE: kept}))
        if table.changes is None:
            return table
        changes = functools.partial(_seen, table.changes)
        return attrs.evolve(table, frame=changes().drop(OLD), changes=changes)

    def map_values(
        self,
        value: Expression | None = None,
        /,
        *,
        returns: str | None = None,
        **fields: Expression,
    ) -> Self:
        """Replace each value by an expression, or by a struct of named fields. A null stays null.

        `returns` is the type of a function's results.
        """

        def change(frame: DataFrame) -> DataFrame:
            return self._of(frame).map_values(value, returns=returns, **fields).frame

        return self._mapped("KTABLE-MAPVALUES-", change)

    def final(self) -> Self:
        """Return one result for each window, when it closes: `suppress(untilWindowCloses)`.

        Raises ValueError without windows, OperatorError after `suppress` or another `final`.
        """
        if self.windows is None:
            raise ValueError("final() needs windows: without them a result is never final")
        if self.closed is not None:
            return self._suppressed(self.closed())
        gap_ms = self.windows.size_ms if self.windows.kind is WindowKind.SESSION else 0
        kernel = until_window_closes(self.windows.grace_ms + gap_ms)
        return self._held("final()", kernel)

    def suppress(self, limit: Duration, *, max_records: int | None = None) -> Self:
        """Return at most one change of each key in a time: `suppress(untilTimeLimit)`.

        The first change of a key is held back until later records of its partition are `limit`
        ahead of it. Then the newest change of the key comes. With `max_records`, a partition holds
        the changes of this number of keys at most: one more sends the oldest early, as
        `maxRecords(..).emitEarlyWhenFull()` does. Raises ValueError for a wrong limit,
        OperatorError where no kernel can follow: after `aggregate`, `final` or another `suppress`.
        """
        if max_records is not None and max_records < 1:
            raise ValueError(
                f"max_records is the number of keys that a partition holds back, and must be 1 or "
                f"more, not {max_records}"
            )
        kernel = until_time_limit(duration_ms(limit), max_records)
        if self.output_mode is None:
            return self._suppressed(suppressed(visible(self.frame), kernel))
        return self._held("suppress()", kernel)

    def group_by(self, *keys: Expression, name: str | None = None) -> "GroupedTable":
        """Group the rows by an expression, or by a struct of several; rows without one are dropped.

        A change takes the old value out of its group before it adds the new one. `name` names the
        group in the topology: `Grouped.as`. Raises OperatorError for a name that no topic can have,
        and for one that is taken.
        """
        from barnabas.pipeline.streams.grouped_table import GroupedTable

        if not keys:
            raise OperatorError("group_by of a table needs an expression, as in group_by('user')")
        table = table_behind_topic(self, "group_by", takes_windows=True)
        frame = visible(table.frame)
        found = [column(frame, each) for each in keys]
        group = found[0] if len(found) == 1 else functions().struct(*found)
        grouped = evaluated(frame, {GROUP: group})
        node = topology_operators.grouped_by(self.node, "KTABLE-SELECT-", name)
        return GroupedTable(grouped, table.inputs, node)

    def join(
        self, other: "Table", *, on: Expression | None = None, value: str | None = None
    ) -> "Table":
        """Return the keys that both tables have.

        The other table is looked up by the key, or by `on`: a foreign key, which a row's value
        contains. Then the result has the keys of this table, and a change of the other table
        changes all rows that refer to it. The value is `struct(left, right)`, or an expression over
        `left` and `right`.
        """
        return self._joined(JoinKind.INNER, other, on, value)

    def left_join(
        self, other: "Table", *, on: Expression | None = None, value: str | None = None
    ) -> "Table":
        """Join as `join` does; rows that the other table lacks come with null."""
        return self._joined(JoinKind.LEFT, other, on, value)

    def outer_join(self, other: "Table", *, value: str | None = None) -> "Table":
        """Join as `join` does; keys that either table lacks come with null."""
        return self._joined(JoinKind.OUTER, other, None, value)

    def _joined(
        self, kind: JoinKind, other: "Table", on: Expression | None, value: str | None
    ) -> "Table":
        own, foreign = (table_behind_topic(each, f"{kind.value} join") for each in (self, other))
        left, right = visible(own.frame), visible(foreign.frame)

        def join(behind: RowKernel | None = None) -> DataFrame:
            if on is None:
                return table_with_table(left, right, kind=kind, value=value, behind=behind)
            return tables_by_foreign_key(
                left,
                right,
                on=column(left, on),
                is_left=kind is JoinKind.LEFT,
                value=value,
                behind=behind,
            )

        frame, inputs = join(), own.inputs + foreign.inputs
        is_by_key = on is None
        add = (
            topology_operators.joined_tables
            if is_by_key
            else topology_operators.joined_by_foreign_key
        )
        node = add(self.node, other.node)
        return Table(frame, inputs, "append", followed=join, node=node)

    def _held(self, operator: str, kernel: RowKernel) -> Self:
        """Return the table with a kernel that holds changes back. Raises OperatorError."""
        if self.followed is None:
            raise OperatorError(
                f"{operator} cannot follow aggregate(), final() or suppress(): use fold() instead "
                "of aggregate(), or write the table to a topic and read that with App.table"
            )
        return self._suppressed(self.followed(kernel))

    def _suppressed(self, frame: DataFrame) -> Self:
        """Return the table of a frame whose changes are held back: no kernel can follow."""
        node = topology_operators.suppressed(self.node)
        return attrs.evolve(
            self,
            frame=frame,
            output_mode="append",
            followed=None,
            closed=None,
            changes=None,
            node=node,
        )

    def _of(self, frame: DataFrame) -> "Stream":
        """Return changes as a stream outside the topology."""
        from barnabas.pipeline.streams.record_stream import Stream

        return Stream(frame, self.inputs)

    def _mapped(self, prefix: str, change: Callable[[DataFrame], DataFrame]) -> Self:
        def mapped(followed: Followed, kernel: RowKernel) -> DataFrame:
            return change(followed(kernel))

        def mapped_closed(closed: Callable[[], DataFrame]) -> DataFrame:
            return change(closed())

        def mapped_changes(changes: Callable[[], DataFrame]) -> DataFrame:
            return _swapped(change(_swapped(change(changes()))))

        followed = None if self.followed is None else functools.partial(mapped, self.followed)
        closed = None if self.closed is None else functools.partial(mapped_closed, self.closed)
        changes = None if self.changes is None else functools.partial(mapped_changes, self.changes)
        frame = change(self.frame)
        node = self.node.add(prefix)
        return attrs.evolve(
            self, frame=frame, followed=followed, closed=closed, changes=changes, node=node
        )

    def to_stream(self) -> "Stream":
        """Return the changes as a stream."""
        from barnabas.pipeline.streams.record_stream import Stream

        node = topology_operators.to_stream(self.node)
        return Stream(self.frame, self.inputs, self.output_mode, self.windows, node=node)


def table_behind_topic(table: Table, operator: str, *, takes_windows: bool = False) -> Table:
    """Return a table for an operator with state: behind a topic, if one made the table.

    Raises OperatorError for keys with windows that the operator does not take, and where no app
    writes a topic.
    """
    check_plain_keys(operator, table.windows is not None and not takes_windows)
    if table.output_mode is None:
        return table
    records = ChainedRecords(visible(table.frame), table.inputs, table.output_mode)
    found = behind_topic(table.node.topology.chain, operator, table.node.name, records)
    return attrs.evolve(
        table,
        frame=found.frame,
        inputs=found.inputs,
        output_mode=None,
        followed=None,
        closed=None,
        changes=None,
    )


def _swapped(frame: DataFrame) -> DataFrame:
    """Return changes with the old values in place of the new ones, and the other way round."""
    return evaluated(frame, {VALUE: functions().col(OLD), OLD: functions().col(VALUE)})


def _seen(changes: Callable[[], DataFrame]) -> DataFrame:
    """Return the changes of which a filter let the new or the old value pass."""
    return changes().filter(functions().col(VALUE).isNotNull() | functions().col(OLD).isNotNull())
