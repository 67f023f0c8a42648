"""The topics that statements create: those of declared sources, and those that queries write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from barnabas.pipeline.sql.shell.join_partitions import check_partitions
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
    from barnabas.pipeline.sql.analysis.plan_values import WrittenQuery
    from barnabas.pipeline.sql.catalog.source_values import Source

_BROKER_DEFAULT: Final = -1
_COMPACTED: Final = {"cleanup.policy": "compact"}
_WINDOWS: Final = {"cleanup.policy": "compact,delete"}


def create_sink(cluster: ClusterState, query: WrittenQuery) -> None:
    """Create the topic of a query's sink, with partitions and retention of the first that it reads.

    Raises UnresolvedError, KafkaException.
    """
    sink, plan = query.sink, query.plan
    read = [each.source.topic for each in plan.relations]
    topics = cluster.topics(list(dict.fromkeys([*read, sink.topic])))
    for name in read:
        if topics[name] is None:
            raise UnresolvedError(f"The topic {name} is not there: create it first")
    check_partitions(plan, {name: each.partitions for name, each in topics.items() if each})
    if topics[sink.topic] is not None:
        return
    first = topics[read[0]]
    partitions = sink.partitions or (first.partitions if first is not None else 1)
    _create(cluster, sink, partitions, _sink_config(cluster, query, read[0]))


def _sink_config(cluster: ClusterState, query: WrittenQuery, read: str) -> dict[str, str]:
    """Return the properties of a sink's topic, as ksqlDB sets them.

    Rows have the times of the records that they are from, so a retention shorter than that of the
    records would delete them at once.
    """
    sink, aggregation = query.sink, query.plan.aggregation
    window = None if aggregation is None else aggregation.window
    if sink.is_table and window is None:
        return _COMPACTED
    found = cluster.retention_ms(read) if sink.retention_ms is None else sink.retention_ms
    if found is not None and found >= 0 and window is not None and window.retention is not None:
        found = max(found, window.retention.ms)
    return {**(_WINDOWS if sink.is_table else {}), **_retention(found)}


def _retention(retention_ms: int | None) -> dict[str, str]:
    return {} if retention_ms is None else {"retention.ms": str(retention_ms)}


def create_staging(cluster: ClusterState, source: Source, name: str) -> None:
    """Create a topic for the rows of a table that is rebuilt, partitioned as the table's topic.

    Raises UnresolvedError, KafkaException.
    """
    topics = cluster.topics([source.topic, name])
    found = topics[source.topic]
    if topics[name] is not None:
        raise UnresolvedError(
            f"The topic {name}, in which the table would be built, is there already: delete it"
        )
    if found is None:
        raise UnresolvedError(f"The topic {source.topic} is not there: create it first")
    staging = replace(source, topic=name)
    _create(cluster, staging, found.partitions, _COMPACTED)


def deleted_records(cluster: ClusterState, names: Sequence[str]) -> list[str]:
    """Return warnings for topics whose earliest records are deleted. Raises KafkaException.

    Compaction does not move the start of a log: records were deleted where it is above 0, also
    when the topic is compacted now.
    """
    topics = [each for each in cluster.topics(names).values() if each is not None]
    starts = {place: start for place, (start, _) in cluster.log_ranges(topics).items() if start}
    return [
        f"The rebuilt table lacks the rows of records that are deleted from topic {name}: "
        f"partition {partition} starts at offset {start}"
        for (name, partition), start in sorted(starts.items())
    ]


def compacted_values(cluster: ClusterState, source: Source) -> list[str]:
    """Return a warning for a stream over a compacted topic. Raises KafkaException."""
    if source.is_table or not cluster.is_compacted(source.topic):
        return []
    return [
        f"The topic {source.topic} of the stream {source.name} is compacted: a query that starts "
        "later, or whose state is rebuilt, reads only the values of each key that are left. Set "
        "cleanup.policy=delete for the topic, or declare a TABLE"
    ]


def create_declared(cluster: ClusterState, source: Source) -> None:
    """Create the topic of a declared source where PARTITIONS says so.

    Raises UnresolvedError, KafkaException.
    """
    if cluster.topics([source.topic])[source.topic] is not None:
        return
    if source.partitions is None:
        raise UnresolvedError(
            f"The topic {source.topic} is not there: create it, or add PARTITIONS=1 to the "
            "properties, which creates it"
        )
    config = _COMPACTED if source.is_table else _retention(source.retention_ms)
    _create(cluster, source, source.partitions, config)


def _create(
    cluster: ClusterState, source: Source, partitions: int, config: Mapping[str, str]
) -> None:
    try:
        cluster.create_topic(source.topic, partitions, config, source.replicas or _BROKER_DEFAULT)
    except KafkaException as error:
        raise UnresolvedError(
            f"The topic {source.topic} was not created: {error.args[0].str()}"
        ) from None
