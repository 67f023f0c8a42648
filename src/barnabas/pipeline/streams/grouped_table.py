"""Groups of a table's rows, and the aggregates that follow its changes.

A change of a row takes its old value out of the aggregate of its old group, and adds the new value
to that of its new group. So an aggregate needs two functions, of which one undoes the other.
"""

import functools
from typing import Any

import attrs

from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.streams import topology_operators
from barnabas.pipeline.streams.folded_groups import (
    TABLE_COUNT,
    TABLE_SUM,
    Fold,
    Folder,
    TableFold,
    regrouped,
    sum_type,
)
from barnabas.pipeline.streams.folder_checks import check_function, check_initial
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.serdes import DataType, functions, spark_type
from barnabas.pipeline.streams.stream_columns import VALUE, evaluated
from barnabas.pipeline.streams.topic_reading import TopicInput
from barnabas.pipeline.streams.topology_nodes import TopologyNode, detached


@attrs.frozen(eq=False)
class GroupedTable:
    """Rows of a table, grouped: `KGroupedTable` of Kafka Streams; made by `Table.group_by`.

    A group whose last row is gone stays, as in Kafka Streams: its count is 0.
    """

    frame: DataFrame = attrs.field(repr=False)
    """The rows, with the column GROUP."""
    inputs: tuple[TopicInput, ...]
    node: TopologyNode = attrs.field(factory=detached, repr=False)
    """The place in the topology that `App.describe` prints."""

    def count(self) -> Table:
        """Return the number of rows of each group."""
        return self._folded(TABLE_COUNT, pyspark("sql.types").LongType())

    def sum(self, expression: str) -> Table:
        """Return the sum of an expression for each group; null counts as no value."""
        values = evaluated(self.frame, {VALUE: functions().expr(expression)})
        return attrs.evolve(self, frame=values)._folded(TABLE_SUM, sum_type(values))

    def reduce(self, add: Folder, remove: Folder) -> Table:
        """Combine the values of each group: both functions take (aggregate, value).

        `remove` undoes what `add` did with a value. Both run in Python. Structs are dictionaries.
        Raises OperatorError.
        """
        check_function("reduce()", "add", add)
        check_function("reduce()", "remove", remove)
        kind = self.frame.schema[VALUE].dataType
        return self._folded(TableFold(Fold(add), remove), kind, is_reduction=True)

    def fold(self, initial: Any, add: Folder, remove: Folder, *, returns: str) -> Table:
        """Combine the values of each group from `initial`: `aggregate` of Kafka Streams.

        `add(aggregate, value)` and `remove(aggregate, value)` return the new aggregate, of the type
        `returns` (DDL); None deletes the group. Both run in Python. Structs are dictionaries.
        Raises OperatorError.
        """
        check_initial("fold()", initial)
        check_function("fold()", "add", add)
        check_function("fold()", "remove", remove)
        fold = TableFold(Fold(add, initial, has_initial=True), remove)
        return self._folded(fold, spark_type(returns))

    def _folded(self, fold: TableFold, kind: DataType, *, is_reduction: bool = False) -> Table:
        make = functools.partial(regrouped, self.frame, fold, kind)
        frame, changes = make(None), functools.partial(make, has_old=True)
        node = topology_operators.table_aggregated(self.node, is_reduction=is_reduction)
        return Table(frame, self.inputs, "append", followed=make, changes=changes, node=node)
