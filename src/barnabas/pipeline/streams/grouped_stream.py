"""Groups of a stream's records, and the aggregates that make tables of them.

Counts and sums run in Spark's own aggregation. The timestamp of a result is the largest of the
records in it.
"""

from typing import Self

import attrs

from barnabas.pipeline.delivery.spark_library import DataFrame
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.serdes import Column, functions
from barnabas.pipeline.streams.stream_columns import KEY, TIMESTAMP, VALUE, WINDOW, scoped
from barnabas.pipeline.streams.topic_reading import TopicInput
from barnabas.pipeline.streams.window_specs import Window


@attrs.frozen(eq=False)
class GroupedStream:
    """Records grouped by their key, and by windows of time when `window` was called.

    Records without a key or without a value are left out, as in Kafka Streams.
    """

    frame: DataFrame = attrs.field(repr=False)
    inputs: tuple[TopicInput, ...]
    windows: Window | None = None

    def window(self, window: Window) -> Self:
        """Group the records by windows of time, too."""
        return attrs.evolve(self, windows=window)

    def count(self) -> Table:
        """Return the number of records of each group."""
        return self._table([functions().count(functions().lit(1))], functions().col("_result_0"))

    def sum(self, expression: str) -> Table:
        """Return the sum of an expression for each group."""
        total = functions().sum(functions().expr(expression))
        return self._table([total], functions().col("_result_0"))

    def aggregate(self, **fields: str) -> Table:
        """Return a struct of Spark's aggregates for each group: `aggregate(most="max(price)")`."""
        if not fields:
            raise ValueError("aggregate needs fields: aggregate(n='count(*)', most='max(price)')")
        aggregates = [functions().expr(text) for text in fields.values()]
        named = [
            functions().col(f"_result_{index}").alias(name) for index, name in enumerate(fields)
        ]
        return self._table(aggregates, functions().struct(*named))

    def _table(self, aggregates: list[Column], value: Column) -> Table:
        """Return the table of aggregates, whose columns are `_result_0` and so on in `value`."""
        col = functions().col
        groups = [col(KEY)]
        rows = self.frame
        if self.windows is not None:
            rows = rows.withWatermark(TIMESTAMP, f"{self.windows.grace_ms} milliseconds")
            groups.append(_window(self.windows).alias(WINDOW))
        rows = scoped(rows).filter(col(KEY).isNotNull() & col(VALUE).isNotNull())
        results = [each.alias(f"_result_{index}") for index, each in enumerate(aggregates)]
        newest = functions().max(TIMESTAMP).alias(TIMESTAMP)
        grouped = rows.groupBy(*groups).agg(*results, newest)
        window = [WINDOW] if self.windows is not None else []
        frame = grouped.select(KEY, value.alias(VALUE), TIMESTAMP, *window)
        return Table(frame, self.inputs, "update", self.windows)


def _window(window: Window) -> Column:
    size, advance = (f"{length} milliseconds" for length in (window.size_ms, window.advance_ms))
    return functions().window(TIMESTAMP, size, advance)
