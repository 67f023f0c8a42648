"""The reverse of a promoted flow: its old source becomes the target.

The reverse flow continues where the logs of both clusters agree: at the end of the old source's
log, when the promoted topic begins with the same batches. `reversal` looks; `prepare` makes the
topics of the old source mirrors, and commits the first positions of the reverse flow there.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from barnabas.client import KafkaClient
from barnabas.client.admin_calls import EARLIEST, LATEST
from barnabas.client.batch_reader import BatchReader
from barnabas.config.mirror_topics import PROMOTED, SOURCE, Promotion
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry, GroupOffsets
from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.cluster_queries import Topic
from barnabas.pipeline.mirror.flow_values import NO_EPOCH, Partition
from barnabas.pipeline.mirror.topic_following import FlowRefusedError
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.errors import ErrorCode, KafkaError

_SUFFIX: Final = "-reverse"
_CLEANUP: Final = "cleanup.policy"
_COMPACT: Final = "compact"
_FETCH_S: Final = 1.0
_REMEDY: Final = (
    "delete the topic at the old source, to copy it there from its start, after the records that "
    "only the old source has were saved"
)


@attrs.frozen
class ReversedPartition:
    """One partition of the old source, and the offset where the reverse flow continues."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_EPOCH
    """The leader epoch of the batch before the offset, at the promoted topic."""

    @property
    def where(self) -> Partition:
        """Return the partition."""
        return self.topic, self.partition


@attrs.frozen
class Reversal:
    """The topics of a reverse flow, and where it continues in those that the old source has."""

    topics: Mapping[str, Topic]
    """The promoted topics."""
    partitions: Sequence[ReversedPartition]


def reverse_name(flow: str) -> str:
    """Return the name of the reverse flow; the reverse of the reverse is the flow."""
    return flow.removesuffix(_SUFFIX) if flow.endswith(_SUFFIX) else flow + _SUFFIX


async def reversal(flow: str, old_source: KafkaClient, promoted: KafkaClient) -> Reversal:
    """Return how a flow can be reversed.

    Raises FlowRefusedError when nothing was promoted, or when the old source has records that the
    flow has not copied; KafkaError, ClientError.
    """
    topics, promotions = await _promoted_topics(flow, promoted)
    present = await cluster_queries.topics(old_source, topics)
    for name, topic in present.items():
        if topic.partitions > topics[name].partitions:
            raise FlowRefusedError(
                f"topic {name} has {topic.partitions} partitions at the old source, and "
                f"{topics[name].partitions} where it was promoted: add partitions there"
            )
    pairs = [pair for topic in present.values() for pair in topic.pairs]
    await _check_nothing_is_left(pairs, promotions, old_source, promoted)
    return Reversal(topics, await _agreed(pairs, present, old_source, promoted))


async def prepare(
    plan: Reversal,
    reverse: str,
    old_source: KafkaClient,
    promoted: KafkaClient,
    *,
    is_identical: bool,
) -> None:
    """Make the topics of the old source the targets of the reverse flow.

    With identical offsets they become its mirrors. A producer may have written to the old source
    meanwhile: the mirrors are opened again then. Raises FlowRefusedError, KafkaError, ClientError,
    GroupOffsetsError.
    """
    names = list(dict.fromkeys(each.topic for each in plan.partitions))
    if is_identical:
        for name in names:
            await _make_mirror(old_source, name, reverse)
        pairs = [each.where for each in plan.partitions]
        ends = await cluster_queries.offsets(old_source, pairs, LATEST)
        for each in plan.partitions:
            if ends[each.where] != each.offset:
                for name in names:
                    await cluster_queries.alter_configs(old_source, name, {SOURCE: None})
                raise FlowRefusedError(_left_text(each.where, each.offset, ends[each.where]))
    cluster_id = promoted.metadata.cluster_id or ""
    now_ms = int(time.time() * 1000)
    entries = {
        each.where: GroupEntry(
            each.offset,
            OffsetMetadata(plan.topics[each.topic].topic_id, cluster_id, now_ms).encode(),
            each.leader_epoch,
        )
        for each in plan.partitions
    }
    if entries:
        await GroupOffsets(old_source).commit(f"mirror-{reverse}", entries)


async def _promoted_topics(
    flow: str, promoted: KafkaClient
) -> tuple[dict[str, Topic], dict[str, Promotion]]:
    """Return the topics that were mirrors of a flow, with their promotions."""
    existing = await cluster_queries.topics(promoted)
    names = [topic.name for topic in existing.values() if not topic.is_internal]
    configs = await cluster_queries.topic_configs(promoted, names)
    still = [name for name in names if configs.get(name, {}).get(SOURCE) == flow]
    if still:
        raise FlowRefusedError(
            f"topic {still[0]} is a mirror of flow {flow}: run barnabas mirror promote {flow} first"
        )
    found: dict[str, Promotion] = {}
    for name in names:
        text = configs.get(name, {}).get(PROMOTED, "")
        if text.partition(":")[0] == flow:
            found[name] = Promotion.parse(text)
    if not found:
        raise FlowRefusedError(
            f"no topic was promoted from flow {flow}: give the clusters as in barnabas mirror "
            "create; a flow with offsets=assigned has no mirrors, and cannot be reversed"
        )
    return {name: existing[name] for name in found}, found


async def _check_nothing_is_left(
    pairs: Sequence[Partition],
    promotions: Mapping[str, Promotion],
    old_source: KafkaClient,
    promoted: KafkaClient,
) -> None:
    """Raise FlowRefusedError when the old source has offsets beyond the end of the mirror."""
    epochs = {where: promotions[where[0]].epoch_of(where[1]) - 1 for where in pairs}
    known = {where: epoch for where, epoch in epochs.items() if epoch >= 0}
    # A log without a newer leader epoch has only mirrored batches.
    mirrored = await cluster_queries.offsets(promoted, known, LATEST)
    newer = await cluster_queries.epoch_ends(promoted, known)
    mirrored |= {where: end.offset for where, end in newer.items()}
    ends = await cluster_queries.offsets(old_source, pairs, LATEST)
    for where in pairs:
        copied = mirrored.get(where, 0)  # a partition that was added later was not mirrored
        if ends[where] > copied:
            raise FlowRefusedError(_left_text(where, copied, ends[where]))


async def _agreed(
    pairs: Sequence[Partition],
    present: Mapping[str, Topic],
    old_source: KafkaClient,
    promoted: KafkaClient,
) -> list[ReversedPartition]:
    """Return the ends of the old source's logs, after a look at the last batch of both sides."""
    configs = [
        await cluster_queries.topic_configs(each, present) for each in (old_source, promoted)
    ]
    ends = await cluster_queries.offsets(old_source, pairs, LATEST)
    sides = [
        (client, await cluster_queries.offsets(client, pairs, EARLIEST))
        for client in (old_source, promoted)
    ]
    found: list[ReversedPartition] = []
    for where in pairs:
        last = [
            await _last_batch(client, where, ends[where]) if starts[where] < ends[where] else None
            for client, starts in sides
        ]
        policies = [each.get(where[0], {}).get(_CLEANUP, "") for each in configs]
        is_compacted = any(_COMPACT in policy for policy in policies)
        if None not in last and not is_compacted and len(set(map(_identity, last))) > 1:
            raise FlowRefusedError(
                f"the batch before offset {ends[where]} of {where[0]}-{where[1]} is not the same "
                f"in both clusters: see barnabas mirror verify; {_REMEDY}"
            )
        mine = last[1]
        epoch = NO_EPOCH if mine is None else max(NO_EPOCH, mine.partition_leader_epoch)
        found.append(ReversedPartition(*where, ends[where], epoch))
    return found


async def _last_batch(client: KafkaClient, where: Partition, end: int) -> BatchHeader | None:
    """Return the batch that ends at an offset; None when compaction has removed it."""
    headers = await BatchReader(client, *where, end - 1).fetch(_FETCH_S)
    return next((each for each in headers[:1] if each.next_offset == end), None)


def _identity(header: BatchHeader | None) -> tuple[int, int, int] | None:
    return None if header is None else (header.base_offset, header.record_count, header.crc)


async def _make_mirror(client: KafkaClient, topic: str, flow: str) -> None:
    try:
        await cluster_queries.alter_configs(client, topic, {SOURCE: flow})
    except KafkaError as error:
        if error.code is not ErrorCode.INVALID_CONFIG:
            raise
        raise FlowRefusedError(
            f"the old source does not keep offsets, which only barnabas does ({error}): repeat the "
            "command with --offsets assigned; new records then get other offsets there, offsets "
            "of groups are not copied, and producers are not kept from the topics"
        ) from error


def _left_text(where: Partition, copied: int, end: int) -> str:
    return (
        f"the old source has offsets {copied} to {end - 1} of {where[0]}-{where[1]}, which were "
        f"not copied before the promotion: {_REMEDY}"
    )
