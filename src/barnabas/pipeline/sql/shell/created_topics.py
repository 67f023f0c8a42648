"""The topics that statements create: those of declared sources, and those that queries write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
    from barnabas.pipeline.sql.analysis.plan_values import WrittenQuery
    from barnabas.pipeline.sql.catalog.source_values import Source

_BROKER_DEFAULT: Final = -1
_COMPACTED: Final = {"cleanup.policy": "compact"}


def create_sink(cluster: ClusterState, query: WrittenQuery) -> None:
    """Create the topic of a query's sink, with the partitions of the topic that it reads.

    Raises UnresolvedError, KafkaException.
    """
    sink, plan = query.sink, query.plan
    read = [each.source.topic for each in plan.relations]
    topics = cluster.topics(list(dict.fromkeys([*read, sink.topic])))
    for name in read:
        if topics[name] is None:
            raise UnresolvedError(f"The topic {name} is not there: create it first")
    if topics[sink.topic] is not None:
        return
    first = topics[read[0]]
    partitions = sink.partitions or (first.partitions if first is not None else 1)
    is_compacted = sink.is_table and sink.window is None
    config = _COMPACTED if is_compacted else {}
    cluster.create_topic(sink.topic, partitions, config, sink.replicas or _BROKER_DEFAULT)


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
    config = _COMPACTED if source.is_table else {}
    cluster.create_topic(
        source.topic, source.partitions, config, source.replicas or _BROKER_DEFAULT
    )
