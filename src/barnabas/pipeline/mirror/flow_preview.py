"""The plan of a flow for a person: topics, partitions, offsets and bytes; nothing is changed."""

import contextlib
from collections.abc import Collection

import attrs

from barnabas.client import ClientError, KafkaClient
from barnabas.client.admin_calls import EARLIEST, LATEST
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.flow_connector import FlowSettings
from barnabas.pipeline.mirror.flow_driver import FlowDriver, FlowTopics
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.topic_acls import AclsNotCopiedError, missing_acls
from barnabas.protocol.errors import KafkaError


@attrs.frozen
class TopicPreview:
    """One topic of a flow."""

    topic: str
    partitions: int
    offsets: int
    """Offsets that the source holds; records, and markers of transactions."""
    bytes: int | None
    """The size of one replica at the source; None when the source does not say."""
    is_new: bool
    """True when the flow creates the topic at the target."""


async def preview(
    settings: FlowSettings, wanted: FlowTopics, source: KafkaClient, target: KafkaClient
) -> list[TopicPreview]:
    """Return what a flow would copy. Raises FlowRefusedError, KafkaError, ClientError."""
    driver = FlowDriver.of(settings, wanted, source, target)
    chosen, present = await driver.check()
    pairs = [pair for topic in chosen.values() for pair in topic.pairs]
    starts = await cluster_queries.offsets(source, pairs, EARLIEST)
    ends = await cluster_queries.offsets(source, pairs, LATEST)
    sizes: dict[Partition, int] | None = None
    with contextlib.suppress(KafkaError, ClientError):  # Describe on the cluster may be missing
        sizes = await cluster_queries.partition_sizes(source, pairs)
    return [
        TopicPreview(
            name,
            topic.partitions,
            sum(ends[pair] - starts[pair] for pair in topic.pairs),
            None if sizes is None else sum(sizes.get(pair, 0) for pair in topic.pairs),
            name not in present,
        )
        for name, topic in chosen.items()
    ]


async def acl_preview(
    settings: FlowSettings, topics: Collection[str], source: KafkaClient, target: KafkaClient
) -> str:
    """Return what a flow does with the ACLs of its topics. Raises KafkaError, ClientError."""
    if not settings.copies_acls:
        return "not copied: ACLs (sync.topic.acls.enabled=false)"
    try:
        count = len(
            await missing_acls(source, target, {name: settings.remote(name) for name in topics})
        )
    except AclsNotCopiedError as error:
        return f"not copied: ACLs, because {error}"
    return (
        f"copied: ACLs of topics, without the right to write; {count} are missing at the target; "
        "not copied: other ACLs"
    )
