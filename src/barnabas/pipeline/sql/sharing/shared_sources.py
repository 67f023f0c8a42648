"""A source of the stored catalog as a stream or a table of an app, and as a view of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.delivery.plan.job_plan import OnTrim
from barnabas.pipeline.sql.analysis.plan_values import PlannedRelation
from barnabas.pipeline.sql.planning.source_reading import (
    layout_of,
    read_stream,
    read_table,
    time_of,
)
from barnabas.pipeline.sql.planning.sql_serdes import key_serde, value_serde
from barnabas.pipeline.sql.sharing.catalog_reading import CATALOG_TOPIC, read_catalog, source_of
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.streams.serdes import SerdeContext, functions
from barnabas.pipeline.streams.stream_columns import (
    HEADERS,
    KEPT,
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALUE,
)
from barnabas.pipeline.streams.topic_reading import OnError, TopicInput, decoded, source_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.pipeline.delivery.driver.spark_library import DataFrame, SparkSession
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.streams.record_stream import Stream
    from barnabas.pipeline.streams.record_table import Table
    from barnabas.pipeline.streams.stream_app import App

_NEWEST: Final = "_newest"


def stream(
    app: App, name: str, *, start: str = "earliest", catalog_topic: str = CATALOG_TOPIC
) -> Stream:
    """Return a stream of SQL in an app: structs of its columns as keys and values.

    The name is in any case, or back-quoted. Records that do not decode are skipped. `start` is the
    first position without a committed offset, earliest or latest. Raises ValueError when SQL has
    no stream of the name, KafkaException.
    """
    source = source_of(read_catalog(app.client, catalog_topic), name)
    if source.is_table:
        raise UnresolvedError(f"{source.name} is a table of SQL: use barnabas.sql.table")
    return read_stream(app, source, start)


def table(app: App, name: str, *, catalog_topic: str = CATALOG_TOPIC) -> Table:
    """Return a table of SQL in an app: structs of its columns as keys and values.

    Keys of windows have WINDOWSTART and WINDOWEND. Raises ValueError when SQL has no table of the
    name, KafkaException.
    """
    source = source_of(read_catalog(app.client, catalog_topic), name)
    if not source.is_table:
        raise UnresolvedError(f"{source.name} is a stream of SQL: use barnabas.sql.stream")
    return read_table(app, source)


def register(
    spark: SparkSession,
    bootstrap: str,
    *,
    names: Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
    registry: str = "",
    catalog_topic: str = CATALOG_TOPIC,
) -> list[str]:
    """Make temporary views of the streams and tables of SQL, by their names; return these.

    A view reads the topic to its present end each time. Its columns are those of `SELECT *`, and
    ROWTIME, ROWPARTITION and ROWOFFSET. A table has the newest row of each key. `names` chooses,
    `properties` are those of clients, `registry` is needed for AVRO, PROTOBUF and JSON_SR. Raises
    ValueError for a name that SQL does not have, KafkaException.
    """
    client = {**(properties or {}), "bootstrap.servers": bootstrap}
    catalog = read_catalog(client, catalog_topic)
    chosen = list(catalog.sources) if names is None else names
    sources = [source_of(catalog, each) for each in chosen]
    for source in sources:
        _rows(spark, client, source, registry).createOrReplaceTempView(f"`{source.name}`")
    return [source.name for source in sources]


def _rows(
    spark: SparkSession, client: Mapping[str, str], source: Source, registry: str
) -> DataFrame:
    """Return the rows that a source has now."""
    given = TopicInput(
        source.topic,
        key_serde(source, with_window=True).prepared(SerdeContext(source.topic, "key", registry)),
        value_serde(source).prepared(SerdeContext(source.topic, "value", registry)),
        time_of(source),
        OnError.SKIP,
        "",
        "earliest",
        1,
    )
    options = source_options(client, given, OnTrim.SKIP) | {"endingOffsets": "latest"}
    del options["maxOffsetsPerTrigger"]
    records = spark.read.format("kafka").options(**options).load()
    rows = decoded(records, given).filter(KEPT)
    if source.is_table:
        rows = _newest(rows)
    layout = layout_of(PlannedRelation(source.name, source))
    columns = [column.alias(name) for (_, name), column in layout.items()]
    return rows.filter(functions().col(VALUE).isNotNull()).select(*columns)


def _newest(rows: DataFrame) -> DataFrame:
    """Return the newest row of each key, whose value may be null."""
    f = functions()
    others = f.struct(VALUE, TIMESTAMP, PARTITION, OFFSET, HEADERS)
    newest = f.max_by(others, f.struct(OFFSET, PARTITION)).alias(_NEWEST)
    found = rows.filter(f.col(KEY).isNotNull()).groupBy(KEY).agg(newest)
    return found.select(KEY, f"{_NEWEST}.*")
