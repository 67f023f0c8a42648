"""Groups that change from classic to consumer while they run, and back.

The first heartbeat of the consumer protocol upgrades a classic group of consumers; its classic
members stay as they are. When the last member of the consumer protocol leaves, the group is classic
again (`group.consumer.migration.policy`). One batch of records ends the one type and begins the
other. Kafka: convertToConsumerGroup, convertToClassicGroup.
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from barnabas.coordinator.core.coordinator_output import Output, Record
from barnabas.coordinator.core.steps import Steps
from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.coordinator.groups.classic.classic_member import ClassicMember
from barnabas.coordinator.groups.classic.classic_rebalance import Rebalancer
from barnabas.coordinator.groups.consumer import consumer_records, embedded_protocol
from barnabas.coordinator.groups.consumer.consumer_group import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerGroup,
)
from barnabas.coordinator.groups.consumer.consumer_member import (
    Assignment,
    ClassicPart,
    ConsumerMember,
)
from barnabas.coordinator.groups.consumer.target_assignment import GroupContext
from barnabas.coordinator.groups.offset_and_group_records import group_metadata, group_tombstone
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)


class Upgrades:
    """From classic to consumer."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    def of(self, group: ClassicGroup) -> Steps[tuple[ConsumerGroup, list[Record]]]:
        """Return the upgraded group and its records. Raises GROUP_ID_NOT_FOUND when not allowed.

        Members keep their assignments at the present generation. Sessions continue.
        """
        self._refuse(group)
        group_id = group.group_id
        try:
            members = self._members(group)
        except ProtocolError as error:
            raise _refused(
                group_id, f"the embedded consumer protocol is malformed: {error}"
            ) from error
        upgraded = ConsumerGroup(group_id)
        written = [consumer_records.member_subscription(group_id, member) for member in members]
        for record in written:
            upgraded.replay_subscription(record.key.member_id, record.value)
        topics = self._context.topics
        metadata_hash = yield from topics.metadata_hash(upgraded.subscriptions.topics())
        epoch = group.generation_id
        written.append(consumer_records.group_epoch(group_id, epoch, metadata_hash))
        upgraded.replay_epoch(written[-1].value)
        for member in members:
            target = {t: frozenset(p) for t, p in member.assigned.items()}
            written.append(consumer_records.target_member(group_id, member.member_id, target))
            upgraded.replay_target(member.member_id, written[-1].value)
        written.append(consumer_records.target_metadata(group_id, epoch, 0))
        upgraded.replay_target_epoch(written[-1].value)
        for member in members:
            written.append(consumer_records.current_assignment(group_id, member))
            upgraded.replay_current(member.member_id, written[-1].value)
        logger.info("upgraded classic group to consumer group=%s epoch=%d", group_id, epoch)
        return upgraded, [group_tombstone(group_id), *written]

    def _refuse(self, group: ClassicGroup) -> None:
        settings = self._context.configs.settings
        if not settings.consumer_upgrades:
            raise _refused(group.group_id, "online upgrade is disabled")
        if not group.uses_consumer_protocol:
            raise _refused(group.group_id, "the group does not use the consumer embedded protocol")
        if len(group.members) > settings.consumer_max_size:
            raise _refused(group.group_id, "the group size exceeds the consumer group maximum size")

    def _members(self, group: ClassicGroup) -> list[ConsumerMember]:
        """Return the members with their assignments and with partitions that they still hold.

        During a rebalance a cooperative member may hold partitions that are no longer in its
        assignment; its join named them. Kafka uses assignments only, and may give such a partition
        to another member at once.
        """
        image = self._context.topics.image
        subscriptions = {id_: _subscription(group, member) for id_, member in group.members.items()}
        held: dict[str, dict[Uuid, set[int]]] = {}
        taken: set[tuple[Uuid, int]] = set()
        for member_id, member in group.members.items():
            assigned = embedded_protocol.by_topic_id(_assigned(group, member), image)
            held[member_id] = {topic_id: set(p) for topic_id, p in assigned.items()}
            taken |= {(topic_id, p) for topic_id, ps in assigned.items() for p in ps}
        for member_id in sorted(subscriptions, key=lambda id_: -subscriptions[id_].generation_id):
            claimed = embedded_protocol.by_topic_id(
                subscriptions[member_id].owned_partitions, image
            )
            for topic_id, partitions in claimed.items():
                free = {p for p in partitions if (topic_id, p) not in taken}
                if free:
                    held[member_id].setdefault(topic_id, set()).update(free)
                    taken |= {(topic_id, p) for p in free}
        return [
            _member(group, member, subscriptions[member_id], held[member_id])
            for member_id, member in group.members.items()
        ]


def _subscription(group: ClassicGroup, member: ClassicMember) -> ConsumerProtocolSubscription:
    # A group has no protocol before its first generation.
    metadata = dict(member.protocols).get(group.protocol_name or "", member.protocols[0][1])
    return embedded_protocol.read_subscription(metadata)


def _assigned(
    group: ClassicGroup, member: ClassicMember
) -> list[ConsumerProtocolAssignment.TopicPartition]:
    assignment = embedded_protocol.read_assignment(member.assignment)
    if assignment.user_data:
        raise _refused(
            group.group_id,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade",
        )
    return assignment.assigned_partitions


def _member(
    group: ClassicGroup,
    member: ClassicMember,
    subscription: ConsumerProtocolSubscription,
    held: dict[Uuid, set[int]],
) -> ConsumerMember:
    epoch = group.generation_id
    return ConsumerMember(
        member.member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_names=frozenset(subscription.topics),
        assigned={t: dict.fromkeys(sorted(p), epoch) for t, p in held.items() if p},
        classic=ClassicPart(member.session_timeout_ms, tuple(member.protocols)),
    )


def _refused(group_id: str, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group_id} to consumer group because {why}.",
    )


class Downgrades:
    """From consumer to classic."""

    def __init__(self, context: GroupContext, rebalancer: Rebalancer) -> None:
        self._context = context
        self._rebalancer = rebalancer

    def allows_without(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> bool:
        """True when the group becomes classic without these members."""
        size = len(group.members) - len(leaving)
        return size > 0 and group.all_classic_without(leaving) and self._allows(group, size)

    def allows_replacing(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """True when the group becomes classic once this static member has a classic successor."""
        return (
            group.all_classic_without([replaced])
            and not replaced.uses_classic_protocol
            and (self._allows(group, len(group.members)))
        )

    def _allows(self, group: ConsumerGroup, size: int) -> bool:
        settings = self._context.configs.settings
        allowed = settings.consumer_downgrades and size <= settings.max_size
        if not allowed:
            logger.info("downgrade not allowed by configuration group=%s", group.group_id)
        return allowed

    def without(
        self, group: ConsumerGroup, leaving: Collection[ConsumerMember], cause: str, now_ms: int
    ) -> Output:
        """Make the group classic without these members, and begin a rebalance.

        Until it ends, members are assigned what they hold, so that no other member gets it if the
        group changes back (Kafka: their target).
        """
        gone = {member.member_id for member in leaving}
        members = [member for id_, member in group.members.items() if id_ not in gone]
        held = {member.member_id: _held(member) for member in members}
        classic = self._classic(group, members, held, now_ms)
        written = [*group.tombstones(), classic.record]
        return Output(records=written, then=lambda then_ms: self._begin(classic, cause, then_ms))

    def replacing(
        self,
        group: ConsumerGroup,
        replaced: ConsumerMember,
        successor: ConsumerMember,
        *,
        cause: str | None,
        now_ms: int,
    ) -> Output:
        """Make the group classic with a classic successor; with a cause, begin a rebalance.

        The records that replace the member come before these.
        """
        members = [m for m in group.members.values() if m.member_id != replaced.member_id]
        ids = [successor.member_id if id_ == replaced.member_id else id_ for id_ in group.members]
        given = {member.member_id: group.target_of(member) for member in (*members, successor)}
        classic = self._classic(group, [*members, successor], given, now_ms)
        written = consumer_records.group_tombstones(
            group.group_id, ids, group.subscriptions.resolved
        )
        written.append(classic.record)
        return Output(records=written, then=lambda then_ms: self._begin(classic, cause, then_ms))

    def _classic(
        self,
        group: ConsumerGroup,
        members: Sequence[ConsumerMember],
        assigned: Mapping[str, Assignment],
        now_ms: int,
    ) -> "_Classic":
        """Return the classic group of these members, with their assignments."""
        classic = ClassicGroup(group.group_id, now_ms)
        classic.generation_id = group.group_epoch
        for member in members:
            if member.classic is not None:
                classic.add(_classic_member(member, member.classic), None)
        classic.protocol_name = classic.select_protocol()
        image = self._context.topics.image
        assignments: dict[str, bytes] = {}
        for member_id, member in classic.members.items():
            try:
                version = embedded_protocol.version_of(member.metadata(classic.protocol_name))
            except ProtocolError as error:
                raise KafkaError(
                    ErrorCode.GROUP_ID_NOT_FOUND,
                    f"Cannot downgrade the classic group {group.group_id}: {error}.",
                ) from error
            assignments[member_id] = embedded_protocol.write_assignment(
                assigned[member_id], image, version
            )
        logger.info("downgraded consumer group to classic group=%s", group.group_id)
        return _Classic(classic, group_metadata(group.group_id, classic.record_value(assignments)))

    def _begin(self, classic: "_Classic", cause: str | None, now_ms: int) -> Output:
        """After replay: restore what the record lacks, and begin a rebalance if needed."""
        group = self._rebalancer.find(classic.group.group_id)
        if group is None:
            return Output()
        for member_id, before in classic.group.members.items():
            member = group.members[member_id]
            group.update(
                member,
                before.protocols,
                before.rebalance_timeout_ms,
                before.session_timeout_ms,
                None,
            )
            for kind in ("rebalance", "join", "sync"):
                self._context.timers.cancel((kind, group.group_id, member_id))
            self._rebalancer.renew_session(group, member, now_ms)
        if cause is None:
            return Output()
        return self._rebalancer.prepare(group, cause, now_ms)


def _held(member: ConsumerMember) -> Assignment:
    topic_ids = (*member.assigned, *member.revoking)
    return {
        topic_id: frozenset(
            (*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ()))
        )
        for topic_id in topic_ids
    }


class _Classic:
    """A classic group to be created, and its record."""

    def __init__(self, group: ClassicGroup, record: Record) -> None:
        self.group = group
        self.record = record


def _classic_member(member: ConsumerMember, classic: ClassicPart) -> ClassicMember:
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=classic.protocols,
    )
