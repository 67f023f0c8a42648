"""Groups of a stream's records, and the aggregates that make tables of them.

Counts and sums run in Spark's own aggregation, without the records that are late for their windows.
The timestamp of a result is the largest of the records in it.
"""

import functools
from collections.abc import Callable
from typing import Any, Final, Self

import attrs

from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.streams import topology_operators
from barnabas.pipeline.streams.final_totals import can_be_added, final_totals
from barnabas.pipeline.streams.folded_groups import COUNT, SUM, Fold, Folder, folded, sum_type
from barnabas.pipeline.streams.folder_checks import MERGE, check_function, check_initial
from barnabas.pipeline.streams.late_records import on_time
from barnabas.pipeline.streams.operator_chains import ChainedRecords, behind_topic
from barnabas.pipeline.streams.operator_errors import OperatorError
from barnabas.pipeline.streams.record_table import Followed, Table
from barnabas.pipeline.streams.serdes import Column, DataType, functions, spark_type
from barnabas.pipeline.streams.stream_columns import (
    KEY,
    TIMESTAMP,
    VALUE,
    WINDOW,
    evaluated,
    readable_errors,
    scoped,
    visible,
)
from barnabas.pipeline.streams.topic_reading import TopicInput
from barnabas.pipeline.streams.topology_nodes import TopologyNode, detached
from barnabas.pipeline.streams.window_specs import Window, WindowKind

_NATIVE: Final = (WindowKind.TUMBLING, WindowKind.HOPPING)


@attrs.frozen(eq=False)
class GroupedStream:
    """Records grouped by their key, and by windows of time when `window` was called.

    Records without a key or without a value are left out, as in Kafka Streams.
    """

    frame: DataFrame = attrs.field(repr=False)
    inputs: tuple[TopicInput, ...]
    windows: Window | None = None
    has_new_keys: bool = False
    """True when keys differ from those that chose the partitions of the topic."""
    node: TopologyNode = attrs.field(factory=detached, repr=False)
    """The place in the topology that `App.describe` prints."""
    output_mode: str | None = None
    """Spark's output mode of the operator with state that made the records; None without one."""
    joined_topics: tuple[tuple[str, ...], ...] = ()
    """The topics of both sides of a join that made the records."""

    def window(self, window: Window) -> Self:
        """Group the records by windows of time, too."""
        return attrs.evolve(self, windows=window)

    def count(self) -> Table:
        """Return the number of records of each group."""
        kind, grouped = pyspark("sql.types").LongType(), self._behind_topic()
        if self._is_kernel():
            return grouped._folded(COUNT, kind)
        count = functions().count(functions().lit(1))
        found = grouped._table([count], functions().col("_result_0"), grouped._kernel(COUNT, kind))
        return grouped._with_final_totals(found, functions().lit(1), kind)

    def sum(self, expression: str) -> Table:
        """Return the sum of an expression for each group."""
        records = self._behind_topic()
        values = evaluated(records.frame, {VALUE: functions().expr(expression)})
        grouped, kind = attrs.evolve(records, frame=values), sum_type(values)
        if self._is_kernel():
            return grouped._folded(SUM, kind)
        total = functions().sum(functions().expr(expression))
        found = records._table([total], functions().col("_result_0"), grouped._kernel(SUM, kind))
        return grouped._with_final_totals(found, functions().col(VALUE), kind)

    def aggregate(self, **fields: str | Column) -> Table:
        """Return a struct of Spark's aggregates for each group: `aggregate(most="max(price)")`.

        An aggregate is a text, or a column that names the columns as the text does.
        """
        if not fields:
            raise ValueError("aggregate needs fields: aggregate(n='count(*)', most='max(price)')")
        if self._is_kernel():
            raise OperatorError("aggregate() has no sessions and sliding windows: use fold()")
        aggregates = [
            functions().expr(each) if isinstance(each, str) else each for each in fields.values()
        ]
        named = [
            functions().col(f"_result_{index}").alias(name) for index, name in enumerate(fields)
        ]
        return self._behind_topic()._table(aggregates, functions().struct(*named))

    def reduce(self, function: Folder) -> Table:
        """Combine the values of each group: `function(aggregate, value)` returns the aggregate.

        It runs in Python. Structs are dictionaries. Raises OperatorError.
        """
        check_function("reduce()", "function", function)
        kind = self.frame.schema[VALUE].dataType
        grouped = self._behind_topic(is_reduction=True)
        return grouped._folded(Fold(function), kind, is_reduction=True)

    def fold(
        self, initial: Any, function: Folder, *, returns: str, merge: Folder | None = None
    ) -> Table:
        """Combine the values of each group from `initial`: `aggregate` of Kafka Streams.

        `function(aggregate, value)` returns the new aggregate, of the type `returns` (DDL). It runs
        in Python. Structs are dictionaries. Sessions need `merge(left, right)`, the aggregate of
        two sessions that a record connects. Raises OperatorError.
        """
        check_initial("fold()", initial)
        check_function("fold()", "function", function)
        if merge is not None:
            check_function("fold()", "merge", merge, MERGE)
        if self.windows is not None and self.windows.kind is WindowKind.SESSION and merge is None:
            raise OperatorError("fold() of sessions needs merge=")
        fold = Fold(function, initial, has_initial=True, merge=merge)
        return self._behind_topic()._folded(fold, spark_type(returns))

    def _behind_topic(self, *, is_reduction: bool = False) -> Self:
        """Return the group with its records behind a topic, if an operator with state made them.

        Raises OperatorError where no app writes a topic.
        """
        if self.output_mode is None:
            return self
        name = topology_operators.repartition_name(self.node, is_reduction=is_reduction)
        frame = self.frame
        if self.node.has_new_keys:
            frame = frame.filter(functions().col(KEY).isNotNull())
        records = ChainedRecords(frame, self.inputs, self.output_mode, self.joined_topics)
        found = behind_topic(self.node.topology.chain, "an aggregate", name, records)
        return attrs.evolve(
            self,
            frame=visible(found.frame),
            inputs=found.inputs,
            has_new_keys=False,
            output_mode=None,
            joined_topics=(),
        )

    def _is_kernel(self) -> bool:
        """True for windows that Spark's aggregation does not have."""
        return self.windows is not None and self.windows.kind not in _NATIVE

    def _folded(self, fold: Fold, kind: DataType, *, is_reduction: bool = False) -> Table:
        make = self._kernel(fold, kind)
        frame, changes = make(), functools.partial(make, has_old=True)
        node = topology_operators.aggregated(self.node, is_reduction=is_reduction)
        return Table(frame, self.inputs, "append", self.windows, make, changes=changes, node=node)

    def _kernel(self, fold: Fold, kind: DataType) -> Callable[..., DataFrame]:
        return functools.partial(
            folded, self.frame, fold, kind, self.windows, has_new_keys=self.has_new_keys
        )

    def _table(
        self, aggregates: list[Column], value: Column, followed: Followed | None = None
    ) -> Table:
        """Return the table of aggregates, whose columns are `_result_0` and so on in `value`."""
        aggregated = functools.partial(self._aggregated, aggregates, value)
        closed = functools.partial(aggregated, waits_for_all=False)
        frame = aggregated(waits_for_all=True)
        node = topology_operators.aggregated(self.node, is_reduction=False)
        return Table(frame, self.inputs, "update", self.windows, followed, closed, node=node)

    def _with_final_totals(self, table: Table, number: Column, kind: DataType) -> Table:
        """Return the table of a number's sums, with final results that tasks add up first."""
        closed = None
        if self.windows is not None and can_be_added(kind):
            new_keys = self.has_new_keys
            closed = functools.partial(
                final_totals, self.frame, number, kind, self.windows, has_new_keys=new_keys
            )
        return attrs.evolve(table, closed=closed)

    def _aggregated(
        self, aggregates: list[Column], value: Column, *, waits_for_all: bool
    ) -> DataFrame:
        col = functions().col
        rows = self.frame
        if self.windows is not None:
            rows = on_time(rows, self.windows, waits_for_all=waits_for_all)
        rows = scoped(rows).filter(col(KEY).isNotNull() & col(VALUE).isNotNull())
        results = [each.alias(f"_result_{index}") for index, each in enumerate(aggregates)]
        newest = functions().max(TIMESTAMP).alias(TIMESTAMP)
        window = [WINDOW] if self.windows is not None else []
        with readable_errors():
            grouped = rows.groupBy(KEY, *window).agg(*results, newest)
        return grouped.select(KEY, value.alias(VALUE), TIMESTAMP, *window)
