"""Groups that turn from classic to consumer while they live, and back.

The first heartbeat of the consumer protocol makes a classic group of consumers a consumer group,
in which the classic members stay as they are; when the last member of the consumer protocol
leaves, the group is classic again (`group.consumer.migration.policy`). Either way one batch of
records ends the one and begins the other. Kafka: convertToConsumerGroup, convertToClassicGroup.
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
from barnabas.coordinator.groups.consumer.target_assignment import Surroundings
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

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def of(self, group: ClassicGroup) -> Steps[tuple[ConsumerGroup, list[Record]]]:
        """The group that replaying the records gives; GROUP_ID_NOT_FOUND where it may not be.

        Members keep their assignments at the present generation. Sessions go on.
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
        topics = self._around.topics
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
        logger.info("classic group becomes a consumer group=%s epoch=%d", group_id, epoch)
        return upgraded, [group_tombstone(group_id), *written]

    def _refuse(self, group: ClassicGroup) -> None:
        settings = self._around.configs.settings
        if not settings.consumer_upgrades:
            raise _refused(group.group_id, "online upgrade is disabled")
        if not group.uses_consumer_protocol:
            raise _refused(group.group_id, "the group does not use the consumer embedded protocol")
        if len(group.members) > settings.consumer_max_size:
            raise _refused(group.group_id, "the group size exceeds the consumer group maximum size")

    def _members(self, group: ClassicGroup) -> list[ConsumerMember]:
        """The members with what they have: what they were assigned, and what they still hold.

        In the middle of a rebalance a cooperative member may hold what its assignment does not
        have (any more); it said so when it joined. Kafka goes by assignments alone, and may give
        such a partition to another member at once.
        """
        image = self._around.topics.image
        told = {id_: _subscription(group, member) for id_, member in group.members.items()}
        held: dict[str, dict[Uuid, set[int]]] = {}
        taken: set[tuple[Uuid, int]] = set()
        for member_id, member in group.members.items():
            assigned = embedded_protocol.by_topic_id(_assigned(group, member), image)
            held[member_id] = {topic_id: set(p) for topic_id, p in assigned.items()}
            taken |= {(topic_id, p) for topic_id, ps in assigned.items() for p in ps}
        for member_id in sorted(told, key=lambda id_: -told[id_].generation_id):
            claimed = embedded_protocol.by_topic_id(told[member_id].owned_partitions, image)
            for topic_id, partitions in claimed.items():
                free = {p for p in partitions if (topic_id, p) not in taken}
                if free:
                    held[member_id].setdefault(topic_id, set()).update(free)
                    taken |= {(topic_id, p) for p in free}
        return [
            _member(group, member, told[member_id], held[member_id])
            for member_id, member in group.members.items()
        ]


def _subscription(group: ClassicGroup, member: ClassicMember) -> ConsumerProtocolSubscription:
    # Before its first generation is there a group has not settled on a protocol.
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

    def __init__(self, around: Surroundings, rebalancer: Rebalancer) -> None:
        self._around = around
        self._rebalancer = rebalancer

    def allows_without(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> bool:
        """Whether the group is to be classic once these have gone."""
        size = len(group.members) - len(leaving)
        return size > 0 and group.all_classic_without(leaving) and self._allows(group, size)

    def allows_replacing(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether it is to be once this static member has a classic successor."""
        return (
            group.all_classic_without([replaced])
            and not replaced.uses_classic_protocol
            and (self._allows(group, len(group.members)))
        )

    def _allows(self, group: ConsumerGroup, size: int) -> bool:
        settings = self._around.configs.settings
        allowed = settings.consumer_downgrades and size <= settings.max_size
        if not allowed:
            logger.info("group stays a consumer group by configuration group=%s", group.group_id)
        return allowed

    def without(
        self, group: ConsumerGroup, leaving: Collection[ConsumerMember], cause: str, now_ms: int
    ) -> Output:
        """Makes the group classic when these have gone, and its members rebalance.

        Until they have, they are assigned what they hold, so that nobody else is given it should
        the group turn back (Kafka: their target).
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
        """Makes the group classic with a classic successor; with a cause its members rebalance.

        The records that put the successor in its place come before these.
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
        """The classic group of these members, with what each is assigned."""
        classic = ClassicGroup(group.group_id, now_ms)
        classic.generation_id = group.group_epoch
        for member in members:
            if member.classic is not None:
                classic.add(_classic_member(member, member.classic), None)
        classic.protocol_name = classic.select_protocol()
        image = self._around.topics.image
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
        logger.info("consumer group becomes classic group=%s", group.group_id)
        return _Classic(classic, group_metadata(group.group_id, classic.record_value(assignments)))

    def _begin(self, classic: "_Classic", cause: str | None, now_ms: int) -> Output:
        """After replay: what the record does not hold, sessions, and a rebalance if need be."""
        group = self._rebalancer.find(classic.group.group_id)
        if group is None:
            return Output()
        for member_id, told in classic.group.members.items():
            member = group.members[member_id]
            group.update(
                member, told.protocols, told.rebalance_timeout_ms, told.session_timeout_ms, None
            )
            for kind in ("rebalance", "join", "sync"):
                self._around.timers.cancel((kind, group.group_id, member_id))
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
    """A classic group as it is to be, and the record that makes it so."""

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
