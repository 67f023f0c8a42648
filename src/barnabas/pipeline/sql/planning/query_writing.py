"""The result of a plan, written to the topic of its sink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import attrs

from barnabas.pipeline.sql.planning.query_planning import planned
from barnabas.pipeline.sql.planning.source_reading import time_of
from barnabas.pipeline.sql.planning.sql_serdes import key_serde, value_serde
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.registry_serdes import RegistrySchemaError
from barnabas.pipeline.streams.serdes import Column, Serde, SerdeContext, functions

if TYPE_CHECKING:
    from barnabas.pipeline.sql.analysis.plan_values import WrittenQuery
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.planning.first_offsets import Start
    from barnabas.pipeline.streams.stream_app import App
    from barnabas.pipeline.streams.stream_queries import StreamQuery


@attrs.frozen
class OfTopic(Serde):
    """A serde with the schemas of a topic, also for records that are written to another one."""

    inner: Serde
    topic: str

    def prepared(self, context: SerdeContext) -> Serde:
        """Return the inner serde for the topic."""
        return self.inner.prepared(attrs.evolve(context, topic=self.topic))


def _with_time(records: Stream | Table, time: Column) -> Stream:
    """Return records with the time of a column; those without one are left out, as in ksqlDB."""
    stream = records.to_stream() if isinstance(records, Table) else records
    is_known = functions().col("value").isNull() | time.isNotNull()
    return stream.filter(is_known).with_time(time)


def register_schemas(sink: Source, registry: str) -> None:
    """Register the schemas that a query writes, so that the next statements find them.

    Raises UnresolvedError without a registry, and where the registry refuses a schema.
    """
    key = key_serde(sink, with_window=False, writes=True)
    for side, serde in (("key", key), ("value", value_serde(sink, writes=True))):
        try:
            serde.prepared(SerdeContext(sink.topic, side, registry))
        except RegistrySchemaError as error:
            raise UnresolvedError(f"{sink.name} cannot be written: {error}") from None


def written(
    app: App,
    query: WrittenQuery,
    name: str | None = None,
    *,
    start: Start = "earliest",
    topic: str | None = None,
) -> StreamQuery:
    """Describe the query of a plan in an app. Raises UnresolvedError for what is missing.

    With `topic` the records go there, as they would be in the sink's topic.
    """
    sink = query.sink
    records = planned(app, query.plan, start)
    time = time_of(replace(sink, key=(), value=sink.value) if query.is_insert else sink)
    if time is not None:
        records = _with_time(records, time)
    is_windowed_here = query.plan.aggregation is not None
    return app.write(
        records,
        topic or sink.topic,
        key=OfTopic(key_serde(sink, with_window=not is_windowed_here, writes=True), sink.topic),
        value=OfTopic(value_serde(sink, writes=True), sink.topic),
        name=name,
    )
