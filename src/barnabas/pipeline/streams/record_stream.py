"""Streams: the records of topics, and the operators that need no state.

Each operator returns a new stream. A stream holds a DataFrame of Spark: `df` is the way to anything
that has no operator here.
"""

from typing import Final, Self

import attrs

from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.streams import topology_operators
from barnabas.pipeline.streams.grouped_stream import GroupedStream
from barnabas.pipeline.streams.interval_joins import (
    JoinKind,
    Within,
    deduplicated,
    joined,
    windows_of,
)
from barnabas.pipeline.streams.joined_tables import stream_with_table
from barnabas.pipeline.streams.kernel_frames import JoinedInputs
from barnabas.pipeline.streams.operator_chains import ChainedRecords, behind_topic
from barnabas.pipeline.streams.operator_errors import OperatorError, check_plain_keys
from barnabas.pipeline.streams.processed_streams import Processor, kernel_of, processed
from barnabas.pipeline.streams.record_table import Table, table_behind_topic
from barnabas.pipeline.streams.serdes import Column, functions, spark_type
from barnabas.pipeline.streams.stream_columns import (
    KEPT,
    KEY,
    TIMESTAMP,
    VALUE,
    WINDOW,
    Expression,
    RecordFunction,
    column,
    evaluated,
    is_live,
    visible,
)
from barnabas.pipeline.streams.topic_reading import TopicInput, time_of
from barnabas.pipeline.streams.topology_nodes import TopologyNode, detached
from barnabas.pipeline.streams.window_specs import Duration, Window, duration_ms

_ELEMENT: Final = "_element"
_POSITION: Final = "_position"


@attrs.frozen(eq=False)
class Stream:
    """Records with a key, a value and a time; made by `App.topic` and by operators.

    Expressions are SQL text or Columns over `key`, `value`, the names of the value's fields (or
    `value.name`), `_timestamp`, `_headers`, `_topic`, `_partition` and `_offset`; or functions of
    key and value. A Python function costs a few microseconds for each record, SQL text does not.
    """

    frame: DataFrame = attrs.field(repr=False)
    inputs: tuple[TopicInput, ...]
    """The topics that the records come from."""
    output_mode: str | None = None
    """Spark's output mode that an operator with state needs; None without state."""
    windows: Window | None = None
    """The windows of the keys, None for plain keys."""
    has_new_keys: bool = False
    """True when keys differ from those that chose the partitions of the topic."""
    joined_topics: tuple[tuple[str, ...], ...] = ()
    """The topics of both sides of a join, whose partitions must be the same in number."""
    node: TopologyNode = attrs.field(factory=detached, repr=False)
    """The place in the topology that `App.describe` prints."""

    @property
    def _topics(self) -> tuple[str, ...]:
        """Return the names of the topics that the records come from."""
        return tuple(dict.fromkeys(each.topic for each in self.inputs))

    @property
    def df(self) -> DataFrame:
        """Return the records as a streaming DataFrame of Spark."""
        return visible(self.frame)

    def filter(self, predicate: Expression) -> Self:
        """Keep the records for which `predicate` is true."""
        return self._with(self._filtered(predicate), self.node.add("KSTREAM-FILTER-"))

    def filter_not(self, predicate: Expression) -> Self:
        """Keep the records for which `predicate` is false or null."""
        condition = column(self.frame, predicate, "BOOLEAN")
        is_false = ~functions().coalesce(condition, functions().lit(False))
        return self.filter(is_false)

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
        found = self._struct(fields) if value is None else column(self.frame, value, returns)
        is_value = functions().col(VALUE).isNotNull()
        frame = evaluated(self.frame, {VALUE: functions().when(is_value, found)})
        return self._with(frame, self.node.add("KSTREAM-MAPVALUES-"))

    def map(self, *, key: Expression, value: Expression, returns: str | None = None) -> Self:
        """Replace each key and value; `returns` is the type of both when they are functions."""
        columns = {
            KEY: column(self.frame, key, returns),
            VALUE: column(self.frame, value, returns),
        }
        return self._rekeyed(evaluated(self.frame, columns), "KSTREAM-MAP-")

    def select_key(self, key: Expression, *, returns: str | None = None) -> Self:
        """Replace each key: `selectKey` of Kafka Streams."""
        frame = evaluated(self.frame, {KEY: column(self.frame, key, returns)})
        return self._rekeyed(frame, "KSTREAM-KEY-SELECT-")

    def flat_map_values(self, values: Expression, *, returns: str | None = None) -> Self:
        """Replace each record by one for each element of an array, which become values."""
        frame = self._exploded(values, returns, {VALUE: functions().col(_ELEMENT)})
        return self._with(frame, self.node.add("KSTREAM-FLATMAPVALUES-"))

    def flat_map(self, records: Expression, *, returns: str | None = None) -> Self:
        """Replace each record by one for each element of an array of (key, value) structs."""
        element = functions().col(_ELEMENT)
        columns = {KEY: element[KEY], VALUE: element[VALUE]}
        return self._rekeyed(self._exploded(records, returns, columns), "KSTREAM-FLATMAP-")

    def with_time(self, time: Expression) -> Self:
        """Replace the time of each record by a timestamp, or by milliseconds since 1970.

        A record without a value keeps its time, and so does one whose time is null.
        """
        given = column(self.frame, time)
        kind = evaluated(self.frame, {"_time": given}).schema["_time"].dataType.typeName()
        found = time_of(given, kind)
        kept = functions().coalesce(found, functions().col(TIMESTAMP))
        is_value = functions().col(VALUE).isNotNull()
        changed = functions().when(is_value, kept).otherwise(functions().col(TIMESTAMP))
        frame = evaluated(self.frame, {TIMESTAMP: changed})
        return self._with(frame, self.node.add("KSTREAM-TRANSFORM-"))

    def branch(self, *predicates: Expression) -> list[Self]:
        """Return a stream for each predicate; a record goes to the first whose predicate is true.

        Add "true" as the last predicate to take all other records.
        """
        frames: list[DataFrame] = []
        before: Column = functions().lit(False)
        for predicate in predicates:
            condition = functions().coalesce(
                column(self.frame, predicate, "BOOLEAN"), functions().lit(False)
            )
            frames.append(self._filtered(condition & ~before))
            before = before | condition
        nodes = topology_operators.branches(self.node, len(frames))
        return [self._with(*found) for found in zip(frames, nodes, strict=True)]

    def merge(self, other: "Stream") -> Self:
        """Return the records of both streams. Raises OperatorError when a topic is in both."""
        both = {each.topic for each in self.inputs} & {each.topic for each in other.inputs}
        if both:
            raise OperatorError(
                f"both streams read topic {sorted(both)[0]}: combine their conditions in one "
                "filter, or write both streams to one topic"
            )
        left, right = self._behind_topic("merge"), other._behind_topic("merge")
        frame = left.frame.unionByName(right.frame, allowMissingColumns=True)
        # A key has another partition in a topic with another number of partitions.
        inputs = left.inputs + right.inputs
        node = topology_operators.merged(self.node, other.node)
        return attrs.evolve(left, frame=frame, inputs=inputs, has_new_keys=True, node=node)

    def peek(self, action: RecordFunction) -> Self:
        """Call a function for each record, in Spark's workers; a repeated batch calls it again."""

        def call(key: object, value: object) -> bool:
            action(key, value)
            return True

        return self._with(self._filtered(call), self.node.add("KSTREAM-PEEK-"))

    def dedupe(self, within: Duration, *, by: Expression = KEY) -> Self:
        """Drop records whose key, or `by`, came within a time before."""
        records = self._behind_topic("dedupe")
        frame = visible(records.frame)
        unique = deduplicated(frame, column(frame, by), duration_ms(within))
        node = topology_operators.deduplicated(self.node)
        return attrs.evolve(records, frame=unique, output_mode="append", node=node)

    def group_by(self, *keys: Expression, name: str | None = None) -> GroupedStream:
        """Group records by an expression, or by a struct of several.

        Records without one are dropped. `name` names the group in the topology: `Grouped.as`.
        Raises OperatorError for a name that no topic can have, and for one that is taken.
        """
        frame = visible(self.frame)
        if not keys:
            raise OperatorError("group_by needs an expression; group_by_key() takes the key")
        found = [column(frame, each) for each in keys]
        key = found[0] if len(found) == 1 else functions().struct(*found)
        grouped = evaluated(frame, {KEY: key})
        node = topology_operators.grouped_by(self.node, "KSTREAM-KEY-SELECT-", name)
        return GroupedStream(
            grouped.drop(WINDOW),
            self.inputs,
            has_new_keys=True,
            node=node,
            output_mode=self.output_mode,
            joined_topics=self.joined_topics,
        )

    def group_by_key(self, *, name: str | None = None) -> GroupedStream:
        """Group records by their key; records without a key are dropped.

        `name` names the group in the topology: `Grouped.as`.
        Raises OperatorError for a name that no topic can have.
        """
        check_plain_keys("group_by_key", self.windows is not None)
        node = topology_operators.grouped_by_key(self.node, name)
        return GroupedStream(
            visible(self.frame).drop(WINDOW),
            self.inputs,
            has_new_keys=self.has_new_keys,
            node=node,
            output_mode=self.output_mode,
            joined_topics=self.joined_topics,
        )

    def window(self, window: Window) -> GroupedStream:
        """Group records by their key and by windows of time."""
        return self.group_by_key().window(window)

    def join(
        self,
        other: "Stream",
        *,
        within: Within,
        grace: Duration = "0 seconds",
        value: str | None = None,
    ) -> "Stream":
        """Join records of two streams with one key whose times differ by `within` at most.

        `within` may be a pair: how long before, and how long after the record of this stream that
        of the other may be. The value is `struct(left, right)`, or an expression over `left` and
        `right`. A pair has the greater time of both. Records without a key are dropped.
        """
        return self._joined(JoinKind.INNER, other, within, grace, value)

    def left_join(
        self,
        other: "Stream",
        *,
        within: Within,
        grace: Duration = "0 seconds",
        value: str | None = None,
        eager: bool = False,
    ) -> "Stream":
        """Join as `join` does; a record of this stream without a partner comes with null.

        It comes when no partner can follow, or with `eager` at once: then a pair may follow, too.
        """
        return self._joined(JoinKind.LEFT, other, within, grace, value, eager)

    def outer_join(
        self,
        other: "Stream",
        *,
        within: Within,
        grace: Duration = "0 seconds",
        value: str | None = None,
        eager: bool = False,
    ) -> "Stream":
        """Join as `join` does; a record of either stream without a partner comes with null.

        It comes when no partner can follow, or with `eager` at once: then a pair may follow, too.
        """
        return self._joined(JoinKind.OUTER, other, within, grace, value, eager)

    def process(
        self,
        processor: Processor,
        *,
        state: str,
        version: int = 1,
        every: Duration | None = None,
        wall_clock_every: Duration | None = None,
        returns: str | None = None,
        key_returns: str | None = None,
    ) -> "Stream":
        """Return what a processor of yours makes of the records: `process` of Kafka Streams.

        `processor.process(record, context)` returns the results of a record. With `every`,
        `processor.punctuate(context)` is called at points of stream time, and returns results, too.
        With `wall_clock_every`, `processor.punctuate_wall_clock(time_ms, context)` is called when
        the wall clock reaches a multiple of that time, also while no records arrive.
        `state` and `version` name the state: another name or version is refused, so change the
        version when the stores get another meaning. `returns` and `key_returns` are the types (DDL)
        of values and keys of the results, by default those of the stream.
        """
        records = self._behind_topic("process")
        every_ms = _period(processor, "every", every, "punctuate")
        wall_clock_ms = _period(
            processor, "wall_clock_every", wall_clock_every, "punctuate_wall_clock"
        )
        frame = visible(records.frame)
        key, value = (
            frame.schema[name].dataType if kind is None else spark_type(kind)
            for name, kind in ((KEY, key_returns), (VALUE, returns))
        )
        kernel = kernel_of(
            processor,
            frame,
            key=key,
            value=value,
            state=state,
            version=version,
            every_ms=every_ms,
        )
        found = processed(
            frame,
            kernel,
            key=key,
            value=value,
            has_new_keys=records.has_new_keys,
            wall_clock_ms=wall_clock_ms,
        )
        node = self.node.add("KSTREAM-PROCESSOR-", state, has_new_keys=True)
        return Stream(found, records.inputs, "append", has_new_keys=True, node=node)

    def join_table(
        self, table: Table, *, on: Expression | None = None, value: str | None = None
    ) -> "Stream":
        """Join each record with the table's value at its time; records without one are dropped.

        The table is looked up by the record's key, or by `on`, as `GlobalKTable` is; the record
        keeps its key. The value is `struct(left, right)`, or an expression over `left` and `right`.
        """
        return self._with_table(table, on, value, is_left=False)

    def left_join_table(
        self, table: Table, *, on: Expression | None = None, value: str | None = None
    ) -> "Stream":
        """Join as `join_table` does; records without a value in the table come with null."""
        return self._with_table(table, on, value, is_left=True)

    def _with_table(
        self, table: Table, on: Expression | None, value: str | None, *, is_left: bool
    ) -> "Stream":
        left = self._behind_topic("join_table")
        right = table_behind_topic(table, "join_table")
        stream = visible(left.frame)
        frame = stream_with_table(
            stream,
            visible(right.frame),
            on=None if on is None else column(stream, on),
            is_left=is_left,
            value=value,
            inputs=JoinedInputs(left.inputs, right.inputs),
        )
        node = topology_operators.joined_with_table(
            self.node, table.node, is_left=is_left, is_global=on is not None
        )
        return Stream(frame, left.inputs + right.inputs, "append", node=node)

    def _joined(
        self,
        kind: JoinKind,
        other: "Stream",
        within: Within,
        grace: Duration,
        value: str | None,
        eager: bool = False,
    ) -> "Stream":
        left, right = (each._behind_topic(f"{kind.value} join") for each in (self, other))
        # The partitions of a topic between two operators are those of the topics before it.
        is_chained = left is not self or right is not other
        has_new_keys = left.has_new_keys or right.has_new_keys or is_chained
        frame = joined(
            kind,
            visible(left.frame),
            visible(right.frame),
            windows=windows_of(within, grace),
            is_eager=eager,
            value=value,
            has_new_keys=has_new_keys,
            inputs=JoinedInputs(left.inputs, right.inputs),
        )
        equal = () if has_new_keys else (self._topics, other._topics)
        node = topology_operators.joined_streams(
            self.node,
            other.node,
            is_left=kind is not JoinKind.INNER,
            is_outer=kind is JoinKind.OUTER,
        )
        inputs = left.inputs + right.inputs
        return Stream(frame, inputs, "append", joined_topics=equal, node=node)

    def _behind_topic(self, operator: str) -> Self:
        """Return the records for an operator with state: behind a topic, if one made them.

        Raises OperatorError for keys with windows, and where no app writes a topic.
        """
        check_plain_keys(operator, self.windows is not None)
        if self.output_mode is None:
            return self
        records = ChainedRecords(
            visible(self.frame), self.inputs, self.output_mode, self.joined_topics
        )
        found = behind_topic(self.node.topology.chain, operator, self.node.name, records)
        return attrs.evolve(
            self,
            frame=found.frame,
            inputs=found.inputs,
            output_mode=None,
            has_new_keys=False,
            joined_topics=(),
        )

    def _with(self, frame: DataFrame, node: TopologyNode) -> Self:
        return attrs.evolve(self, frame=frame, node=node)

    def _rekeyed(self, frame: DataFrame, prefix: str) -> Self:
        """Return the stream with other keys, which have no windows."""
        node = self.node.add(prefix, has_new_keys=True)
        return attrs.evolve(self, frame=frame, windows=None, has_new_keys=True, node=node)

    def _filtered(self, predicate: Expression) -> DataFrame:
        """Return the rows, of which those that the predicate does not keep are marked or gone."""
        condition = column(self.frame, predicate, "BOOLEAN")
        kept = functions().coalesce(condition, functions().lit(False))
        marked = evaluated(self.frame, {KEPT: kept})
        return marked if is_live(self.frame) is not None else marked.filter(KEPT).drop(KEPT)

    def _struct(self, fields: dict[str, Expression]) -> Column:
        if not fields:
            raise OperatorError(
                "map_values needs an expression, or fields: map_values(user='user')"
            )
        return functions().struct(
            *[column(self.frame, each).alias(name) for name, each in fields.items()]
        )

    def _exploded(
        self, array: Expression, returns: str | None, columns: dict[str, Column]
    ) -> DataFrame:
        frame = evaluated(self.frame, {_ELEMENT: column(self.frame, array, returns)})
        elements = functions().posexplode_outer(_ELEMENT).alias(_POSITION, "_each")
        frame = frame.select("*", elements).withColumn(_ELEMENT, functions().col("_each"))
        has_element = functions().col(_POSITION).isNotNull()
        if is_live(frame) is None:
            frame = frame.filter(has_element)
        else:
            columns = columns | {KEPT: functions().col(KEPT) & has_element}
        kept = [columns.get(name, functions().col(name)).alias(name) for name in self.frame.columns]
        return frame.select(*kept)


def _period(processor: Processor, name: str, every: Duration | None, method: str) -> int | None:
    """Return the milliseconds between two calls of a processor's method. Raises OperatorError."""
    if every is None:
        return None
    if not hasattr(processor, method):
        raise OperatorError(f"process({name}=) needs a method {method} of {processor!r}")
    found = duration_ms(every)
    if found < 1:
        raise OperatorError(f"process({name}={every!r}) is shorter than a millisecond")
    return found
