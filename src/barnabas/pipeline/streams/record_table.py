"""Tables: the newest value of each key, as a stream of changes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import attrs

from barnabas.pipeline.delivery.spark_library import DataFrame
from barnabas.pipeline.streams.joined_tables import table_with_table
from barnabas.pipeline.streams.kernels.table_joins import JoinKind
from barnabas.pipeline.streams.operator_errors import check_first
from barnabas.pipeline.streams.serdes import functions
from barnabas.pipeline.streams.stream_columns import (
    VALUE,
    Expression,
    column,
    evaluated,
    visible,
)
from barnabas.pipeline.streams.topic_reading import TopicInput
from barnabas.pipeline.streams.window_specs import Window

if TYPE_CHECKING:
    from barnabas.pipeline.streams.record_stream import Stream


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
    final_frame: Callable[[], DataFrame] | None = attrs.field(default=None, repr=False)
    """Returns the final results, where Spark's output mode does not make them."""

    @property
    def df(self) -> DataFrame:
        """Return the changes as a streaming DataFrame of Spark."""
        return visible(self.frame)

    def filter(self, predicate: Expression) -> Self:
        """Keep the keys for which `predicate` is true; the others are deleted (null values)."""
        condition = column(self.frame, predicate, "BOOLEAN")
        kept = functions().when(condition, functions().col(VALUE))
        return self._mapped(lambda frame: evaluated(frame, {VALUE: kept}))

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
            stream = attrs.evolve(self.to_stream(), frame=frame)
            return stream.map_values(value, returns=returns, **fields).frame

        return self._mapped(change)

    def final(self) -> Self:
        """Return one result for each window, when it closes: `suppress(untilWindowCloses)`."""
        if self.windows is None:
            raise ValueError("final() needs windows: without them a result is never final")
        frame = self.frame if self.final_frame is None else self.final_frame()
        return attrs.evolve(self, frame=frame, output_mode="append", final_frame=None)

    def join(self, other: "Table", *, value: str | None = None) -> "Table":
        """Return the keys that both tables have.

        The value is `struct(left, right)`, or an expression over `left` and `right`.
        """
        return self._joined(JoinKind.INNER, other, value)

    def left_join(self, other: "Table", *, value: str | None = None) -> "Table":
        """Join as `join` does; keys that the other table lacks come with null."""
        return self._joined(JoinKind.LEFT, other, value)

    def outer_join(self, other: "Table", *, value: str | None = None) -> "Table":
        """Join as `join` does; keys that either table lacks come with null."""
        return self._joined(JoinKind.OUTER, other, value)

    def _joined(self, kind: JoinKind, other: "Table", value: str | None) -> "Table":
        check_first(f"{kind.value} join", self.output_mode, other.output_mode)
        frame = table_with_table(visible(self.frame), visible(other.frame), kind=kind, value=value)
        return Table(frame, self.inputs + other.inputs, "append")

    def _mapped(self, change: Callable[[DataFrame], DataFrame]) -> Self:
        final = self.final_frame
        return attrs.evolve(
            self,
            frame=change(self.frame),
            final_frame=None if final is None else lambda: change(final()),
        )

    def to_stream(self) -> "Stream":
        """Return the changes as a stream."""
        from barnabas.pipeline.streams.record_stream import Stream

        return Stream(self.frame, self.inputs, self.output_mode, self.windows)
