"""The end of a flow: its mirrors become ordinary topics, on every leader."""

from collections.abc import Collection, Mapping

from barnabas.client import KafkaClient
from barnabas.config.mirror_topics import PROMOTED, Promotion
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.topic_following import MIRROR_SOURCE
from barnabas.protocol.errors import ErrorCode, KafkaError


async def mirror_topics(client: KafkaClient, flow: str) -> list[str]:
    """Return the topics of a cluster that are mirrors of a flow. Raises KafkaError, ClientError."""
    existing = await cluster_queries.topics(client)
    names = [topic.name for topic in existing.values() if not topic.is_internal]
    configs = await cluster_queries.topic_configs(client, names)
    return sorted(name for name in names if configs.get(name, {}).get(MIRROR_SOURCE) == flow)


async def promote(client: KafkaClient, topics: Collection[str]) -> None:
    """Make mirrors ordinary topics; return when each leader takes records of producers.

    Raises KafkaError, ClientError.
    """
    for topic in topics:
        await cluster_queries.alter_configs(client, topic, {MIRROR_SOURCE: None})
    epochs = await client.retry("reading promotions", lambda: _promotions(client, topics))
    await cluster_queries.await_leader_epochs(client, epochs)


async def _promotions(client: KafkaClient, topics: Collection[str]) -> Mapping[Partition, int]:
    """Return the first leader epochs of ordinary producers.

    Raises KafkaError LEADER_NOT_AVAILABLE when a broker does not have a promotion yet.
    """
    existing = await cluster_queries.topics(client, topics)
    configs = await cluster_queries.topic_configs(client, existing)
    found: dict[Partition, int] = {}
    for name, topic in existing.items():
        known = configs.get(name, {})
        if MIRROR_SOURCE in known or not known.get(PROMOTED):
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} is not promoted yet")
        promotion = Promotion.parse(known[PROMOTED])
        found |= {pair: promotion.epoch_of(pair[1]) for pair in topic.pairs}
    return found
