"""Tables: the newest value of each key, as a stream of changes."""

from typing import TYPE_CHECKING, Self

import attrs

from barnabas.pipeline.delivery.spark_library import DataFrame
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

    @property
    def df(self) -> DataFrame:
        """Return the changes as a streaming DataFrame of Spark."""
        return visible(self.frame)

    def filter(self, predicate: Expression) -> Self:
        """Keep the keys for which `predicate` is true; the others are deleted (null values)."""
        condition = column(self.frame, predicate, "BOOLEAN")
        kept = functions().when(condition, functions().col(VALUE))
        return attrs.evolve(self, frame=evaluated(self.frame, {VALUE: kept}))

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
        mapped = self.to_stream().map_values(value, returns=returns, **fields)
        return attrs.evolve(self, frame=mapped.frame)

    def final(self) -> Self:
        """Return one result for each window, when it closes: `suppress(untilWindowCloses)`."""
        if self.windows is None:
            raise ValueError("final() needs windows: without them a result is never final")
        return attrs.evolve(self, output_mode="append")

    def to_stream(self) -> "Stream":
        """Return the changes as a stream."""
        from barnabas.pipeline.streams.record_stream import Stream

        return Stream(self.frame, self.inputs, self.output_mode, self.windows)
