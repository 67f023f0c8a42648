"""SELECT: the rows of a query as they come, or those up to the present end of the topics."""

from __future__ import annotations

import json
import queue
import tempfile
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.delivery.driver import chained_states
from barnabas.pipeline.delivery.micro_batches import stream_times
from barnabas.pipeline.sql.catalog.source_values import SourceColumn
from barnabas.pipeline.sql.planning.query_planning import planned
from barnabas.pipeline.sql.planning.sql_serdes import JsonColumns
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.pipeline.sql.analysis.plan_values import QueryPlan
    from barnabas.pipeline.streams.stream_app import App

_POLL_S: Final = 0.1
_TRIGGER: Final = "100 milliseconds"


def rows_of(app: App, plan: QueryPlan, start: str) -> Iterator[Sequence[Any]]:
    """Yield the rows of a query: with EMIT CHANGES all that come, else those that are there now.

    Raises UnresolvedError for what is missing, and Spark's error when the query fails.
    """
    records = planned(app, plan, start)
    columns = tuple(SourceColumn(each.name, each.expression.type) for each in plan.value)
    text = JsonColumns(columns, is_wrapped=True).encode(functions().col("value"))
    frame = records.df.filter("value IS NOT NULL").select(text.cast("string").alias("row"))
    found: queue.Queue[str] = queue.Queue(maxsize=10_000)

    def take(rows: Any, batch: int) -> None:
        del batch
        for row in rows.collect():
            found.put(row["row"])

    with tempfile.TemporaryDirectory(prefix="barnabas-sql-") as directory:
        writer = frame.writeStream.outputMode(records.output_mode or "append").foreachBatch(take)
        writer = writer.option("checkpointLocation", directory)
        if plan.emit is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=_TRIGGER)
        with chained_states.allowed(frame), stream_times.known_to_tasks(app.spark, directory):
            running = writer.start()
        try:
            yield from _taken(found, running, plan.limit)
        finally:
            running.stop()


def _taken(found: queue.Queue[str], running: Any, limit: int | None) -> Iterator[Sequence[Any]]:
    count = 0
    while limit is None or count < limit:
        try:
            text = found.get(timeout=_POLL_S)
        except queue.Empty:
            if not running.isActive and found.empty():
                error = running.exception()
                if error is not None:
                    raise error from None
                return
            continue
        count += 1
        yield list(json.loads(text).values())
