"""Change ISRs and leaders after a broker: fenced, unfenced, in shutdown, restarted, without a disk.

As `handleBrokerFenced` and similar methods of Kafka's `ReplicationControlManager`. Each function
returns the records of a whole transition, in the order in which they must be appended.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

import attrs

from barnabas.cluster.controller.election_rules import (
    builder_of,
    election_of,
    keeps_eligible_leaders,
)
from barnabas.cluster.controller.operation_result import Context
from barnabas.cluster.metadata.image import NO_LEADER, BrokerImage, MetadataImage, TopicImage
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from barnabas.protocol.types import Uuid

# Values of `fenced` and `in_controlled_shutdown` in a BrokerRegistrationChangeRecord.
_UNFENCE: Final = -1
_FENCE: Final = 1
_SHUTTING_DOWN: Final = 1

_Partitions = Iterable[tuple[TopicImage, int]]


@attrs.frozen(slots=True)
class _BrokerChange:
    """The change of a broker's state that is being decided, which the image does not show yet.

    `removed` leaves ISRs and leaderships. `added` may lead. `unclean` may have lost acknowledged
    records: it leaves ISRs, ELRs and leaderships.
    """

    removed: int | None = None
    added: int | None = None
    unclean: int | None = None


def fence(context: Context, broker: BrokerImage, most: int | None = None) -> list[Message]:
    """Return the records that fence a broker: it leaves its ISRs first.

    With `most`, return at most that number of partition changes. While more changes are due, the
    record that fences the broker is left out: the caller replays the records and calls again.
    """
    change = _BrokerChange(removed=broker.id)
    fenced = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=_FENCE
    )
    changes = _changes(context, change, _in_sync_on(context.image, broker.id))
    records: list[Message] = list(islice(changes, most))
    return records if len(records) == most else [*records, fenced]


def unfence(context: Context, broker: BrokerImage) -> list[Message]:
    """Return the records that unfence a broker and elect it where a leader is missing."""
    change = _BrokerChange(added=broker.id)
    unfenced = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=_UNFENCE
    )
    return [unfenced, *_changes(context, change, _leaderless(context.image))]


def begin_controlled_shutdown(context: Context, broker: BrokerImage) -> list[Message]:
    """Return the records that move a broker's leaderships away before it stops."""
    change = _BrokerChange(removed=broker.id)
    stopping = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=_SHUTTING_DOWN
    )
    begins: list[Message] = [] if broker.in_controlled_shutdown else [stopping]
    return [*begins, *_changes(context, change, _in_sync_on(context.image, broker.id))]


def end_incarnation(context: Context, broker_id: int, *, is_clean: bool) -> list[Message]:
    """Return the records that take the earlier incarnation of a broker out of its partitions.

    After an unclean shutdown it may have lost acknowledged records with its page cache, so it
    leaves the ELRs, too.
    """
    image = context.image
    if is_clean or not keeps_eligible_leaders(image):
        removed = _BrokerChange(removed=broker_id)
        return [*_changes(context, removed, _in_sync_on(image, broker_id))]
    unclean = _BrokerChange(unclean=broker_id)
    return [
        *_changes(context, unclean, _in_sync_on(image, broker_id)),
        *_changes(context, unclean, _eligible_on(image, broker_id)),
    ]


def unregister(context: Context, broker: BrokerImage) -> list[Message]:
    """Return the records that remove a broker's registration, after it left its ISRs.

    It stays in ELRs: a broker that registers again under its id leaves them then.
    """
    change = _BrokerChange(removed=broker.id)
    unregistered = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    return [*_changes(context, change, _in_sync_on(context.image, broker.id)), unregistered]


def directories_failed(
    context: Context, broker: BrokerImage, offline: Collection[Uuid]
) -> list[Message]:
    """Return the records for directories that failed since the broker's last report."""
    failed = {directory for directory in broker.directories if directory in offline}
    if not failed:
        return []
    left = [directory for directory in broker.directories if directory not in failed]
    change = _BrokerChange(removed=broker.id)
    registration = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left
    )
    return [
        *_changes(context, change, _in_directories(context.image, broker.id, failed)),
        registration,
    ]


def leave_partitions(
    context: Context, broker_id: int, partitions: _Partitions
) -> list[PartitionChangeRecord]:
    """Return the changes that take a broker out of the ISR of these partitions."""
    return [*_changes(context, _BrokerChange(removed=broker_id), partitions)]


def leads_anything(image: MetadataImage, broker_id: int) -> bool:
    """True when the broker leads a partition."""
    return any(
        partition.leader == broker_id
        for topic in image.topics_by_id.values()
        for partition in topic.partitions.values()
    )


def _changes(
    context: Context, change: _BrokerChange, partitions: _Partitions
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes that a change of a broker's state requires.

    As `generateLeaderAndIsrUpdates`.
    """
    gone = {change.removed, change.unclean}
    brokers = context.image.brokers

    def is_active(broker_id: int) -> bool:
        if broker_id in gone:
            return False
        return broker_id == change.added or brokers[broker_id].is_active

    for topic, number in partitions:
        partition = topic.partitions[number]
        election = election_of(context, topic.name)
        builder = builder_of(context, topic, partition, election=election, is_active=is_active)
        builder.isr = tuple(replica for replica in partition.isr if replica not in gone)
        if change.unclean is not None:
            builder.unclean_shutdown = (change.unclean,)
        record = builder.build(topic.id, number)
        if record is not None:
            yield record


def _in_sync_on(image: MetadataImage, broker_id: int) -> _Partitions:
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if broker_id in partition.isr:
                yield topic, number


def _eligible_on(image: MetadataImage, broker_id: int) -> _Partitions:
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if broker_id in partition.elr:
                yield topic, number


def _leaderless(image: MetadataImage) -> _Partitions:
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if partition.leader == NO_LEADER:
                yield topic, number


def _in_directories(
    image: MetadataImage, broker_id: int, directories: Collection[Uuid]
) -> _Partitions:
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if partition.directory(broker_id) in directories:
                yield topic, number
