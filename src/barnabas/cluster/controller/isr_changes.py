"""Change ISRs and leaders after a broker: fenced, unfenced, in shutdown, restarted, without a disk.

As `handleBrokerFenced` and similar methods of Kafka's `ReplicationControlManager`. Each function
returns the records of a whole transition, in the order in which they must be appended.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

import attrs

from barnabas.cluster.controller.election_rules import (
    builder_of,
    election_of,
    keeps_eligible_leaders,
)
from barnabas.cluster.controller.operation_result import Context
from barnabas.cluster.metadata.image import BrokerImage, MetadataImage
from barnabas.cluster.metadata.partition_index import PartitionKey
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from barnabas.protocol.types import Uuid

# Values of `fenced` and `in_controlled_shutdown` in a BrokerRegistrationChangeRecord.
_UNFENCE: Final = -1
_FENCE: Final = 1
_SHUTTING_DOWN: Final = 1


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
    changes = _changes(context, change, _in_sync_on(context, broker))
    records: list[Message] = list(islice(changes, most))
    return records if len(records) == most else [*records, fenced]


def is_fenced_by(records: Sequence[Message]) -> bool:
    """True when records of `fence` are the last ones, which fence the broker."""
    return bool(records) and isinstance(records[-1], BrokerRegistrationChangeRecord)


def unfence(context: Context, broker: BrokerImage, most: int | None = None) -> list[Message]:
    """Return the records that unfence a broker and elect it where a leader is missing.

    With `most`, return at most that number of elections; `elect_in_leaderless` returns the others.
    """
    unfenced = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=_UNFENCE
    )
    return [unfenced, *elect_in_leaderless(context, broker, most)]


def elect_in_leaderless(
    context: Context, broker: BrokerImage, most: int | None = None
) -> list[Message]:
    """Return the records that elect a broker in partitions without a leader."""
    change = _BrokerChange(added=broker.id)
    leaderless = context.image.partition_index.leaderless
    return list(islice(_changes(context, change, leaderless), most))


def begin_controlled_shutdown(
    context: Context, broker: BrokerImage, most: int | None = None
) -> list[Message]:
    """Return the records that move a broker's leaderships away before it stops.

    With `most`, return at most that number of partition changes. The caller replays the records and
    calls again while there were as many.
    """
    change = _BrokerChange(removed=broker.id)
    stopping = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=_SHUTTING_DOWN
    )
    begins: list[Message] = [] if broker.in_controlled_shutdown else [stopping]
    return [*begins, *islice(_changes(context, change, _in_sync_on(context, broker)), most)]


def end_incarnation(
    context: Context, broker_id: int, most: int | None = None, *, is_clean: bool
) -> list[Message]:
    """Return the records that take the earlier incarnation of a broker out of its partitions.

    After an unclean shutdown it may have lost acknowledged records with its page cache, so it
    leaves the ELRs, too. With `most`, return at most that number of records. The caller replays
    the records and calls again while there were as many.
    """
    image = context.image
    index = image.partition_index
    if is_clean or not keeps_eligible_leaders(image):
        removed = _BrokerChange(removed=broker_id)
        changes = _changes(context, removed, index.isr_members(broker_id))
    else:
        unclean = _BrokerChange(unclean=broker_id)
        members = chain(index.isr_members(broker_id), index.elr_members(broker_id))
        changes = _changes(context, unclean, members)
    return list(islice(changes, most))


def leave_all(context: Context, broker: BrokerImage, most: int | None = None) -> list[Message]:
    """Return the records that take a broker out of its ISRs, at most `most` of them.

    It stays in ELRs: a broker that registers again under its id leaves them then.
    """
    change = _BrokerChange(removed=broker.id)
    return list(islice(_changes(context, change, _in_sync_on(context, broker)), most))


def directories_failed(
    context: Context, broker: BrokerImage, offline: Collection[Uuid]
) -> list[Message]:
    """Return the records for directories that failed since the broker's last report."""
    failed = [directory for directory in broker.directories if directory in offline]
    if not failed:
        return []
    left = [directory for directory in broker.directories if directory not in failed]
    change = _BrokerChange(removed=broker.id)
    registration = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left
    )
    index = context.image.partition_index
    partitions = [key for directory in failed for key in index.in_directory(directory)]
    return [*_changes(context, change, partitions), registration]


def leave_partitions(
    context: Context, broker_id: int, partitions: Iterable[PartitionKey]
) -> list[PartitionChangeRecord]:
    """Return the changes that take a broker out of the ISR of these partitions."""
    return [*_changes(context, _BrokerChange(removed=broker_id), partitions)]


def leads_anything(image: MetadataImage, broker_id: int) -> bool:
    """True when the broker leads a partition."""
    return image.partition_index.has_leaderships(broker_id)


def _in_sync_on(context: Context, broker: BrokerImage) -> Iterable[PartitionKey]:
    return context.image.partition_index.isr_members(broker.id)


def _changes(
    context: Context, change: _BrokerChange, partitions: Iterable[PartitionKey]
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes that a change of a broker's state requires.

    As `generateLeaderAndIsrUpdates`.
    """
    gone = {change.removed, change.unclean}

    def is_active(broker_id: int) -> bool:
        if broker_id in gone:
            return False
        return broker_id == change.added or context.is_active(broker_id)

    for topic_id, number in partitions:
        topic = context.image.topics_by_id[topic_id]
        partition = topic.partitions[number]
        election = election_of(context, topic.name)
        builder = builder_of(context, topic, partition, election=election, is_active=is_active)
        builder.isr = tuple(replica for replica in partition.isr if replica not in gone)
        if change.unclean is not None:
            builder.unclean_shutdown = (change.unclean,)
        record = builder.build(topic_id, number)
        if record is not None:
            yield record
