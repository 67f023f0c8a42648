"""ConsumerGroupHeartbeat v0-1: join, stay, change the subscription, leave (KIP-848).

A heartbeat carries only what is new since the last one; a full heartbeat gets a full answer. Epoch
0 joins, -1 leaves, -2 announces that a static member will return. Kafka:
GroupCoordinatorService.consumerGroupHeartbeat and GroupMetadataManager.
"""

import logging

import attrs

from barnabas.coordinator.core.coordinator_output import Caller, Output, Record, Token
from barnabas.coordinator.core.steps import Steps
from barnabas.coordinator.groups.consumer import consumer_records
from barnabas.coordinator.groups.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.groups.consumer.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    Owned,
)
from barnabas.coordinator.groups.consumer.member_removal import Removals
from barnabas.coordinator.groups.consumer.reconciliation import Claimed, is_subset
from barnabas.coordinator.groups.consumer.target_assignment import Change, GroupContext, Rebalances
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

logger = logging.getLogger(__name__)

_Partitions = ConsumerGroupHeartbeatResponse.TopicPartitions
# Since v1 members choose their ids.
_OWN_MEMBER_ID_VERSION = 1


class Heartbeats:
    """Decides on heartbeats to consumer groups."""

    def __init__(self, context: GroupContext, rebalances: Rebalances, removals: Removals) -> None:
        self._context = context
        self._rebalances = rebalances
        self._removals = removals

    def validate(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for a request that no group can accept."""
        epoch = request.member_epoch
        if version >= _OWN_MEMBER_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH:
            _refuse_blank(request.member_id, "MemberId can't be empty.")
        _refuse_blank(request.group_id, "GroupId can't be empty.")
        if request.instance_id is not None:
            _refuse_blank(request.instance_id, "InstanceId can't be empty.")
        if request.rack_id is not None:
            _refuse_blank(request.rack_id, "RackId can't be empty.")
        if epoch == JOIN_EPOCH:
            if request.rebalance_timeout_ms == -1:
                raise _invalid("RebalanceTimeoutMs must be provided in first request.")
            if request.topic_partitions is None or request.topic_partitions:
                raise _invalid("TopicPartitions must be empty when (re-)joining.")
            if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
                raise _invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                    "(re-)joining."
                )
        elif epoch == STATIC_LEAVE_EPOCH:
            if request.instance_id is None:
                raise _invalid("InstanceId can't be null.")
        elif epoch < STATIC_LEAVE_EPOCH:
            raise _invalid("MemberEpoch is invalid.")
        assignors = self._context.configs.settings.consumer_assignors
        wanted = request.server_assignor
        if wanted is not None and wanted not in assignors:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {wanted} is not supported. Supported assignors: "
                f"{', '.join(assignors)}.",
            )

    # Staying

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        fresh_uuid: str,
        now_ms: int,
        token: Token,
        preceding: list[Record],
    ) -> Steps[Output]:
        """Decide on a heartbeat of epoch 0 or more; `preceding` records create the group."""
        self._refuse_overfull(group, request.member_id)
        written = preceding
        before = self._find(group, request, request.member_id or fresh_uuid, written)
        change = Change(group, before, before.updated(request, caller), now_ms, written)
        claimed = request.topic_partitions
        cause = _cause(request, before)
        after = yield from self._rebalances.advance(change, claimed, cause=cause)
        self._keep_timers(group.group_id, change.after, after, now_ms)
        out = Output(records=written)
        out.reply(token, self._response(group, request, before, after))
        regexes = change.regexes
        if regexes:
            group_id = group.group_id
            out.then = lambda _then_ms: self._rebalances.ask_to_resolve(group_id, regexes, caller)
        return out

    def _refuse_overfull(self, group: ConsumerGroup, member_id: str) -> None:
        size_max = self._context.configs.settings.consumer_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {size_max} members.",
            )

    def _find(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        written: list[Record],
    ) -> ConsumerMember:
        """Return the group's member, or a new one. Raises KafkaError when not allowed."""
        joins = request.member_epoch == JOIN_EPOCH
        instance_id = request.instance_id
        if instance_id is not None:
            holder = group.static_member(instance_id)
            if joins and holder is not None:
                return take_place(group, holder, member_id, written, classic=False)
            if not joins:
                holder = known_static(holder, member_id, instance_id)
                _refuse_epoch(holder, request.member_epoch, request.topic_partitions)
                return holder
        if joins:
            return group.members.get(member_id) or ConsumerMember(member_id)
        member = group.member(member_id)
        _refuse_epoch(member, request.member_epoch, request.topic_partitions)
        return member

    def _keep_timers(
        self, group_id: str, before: ConsumerMember, after: ConsumerMember, now_ms: int
    ) -> None:
        if after is not before:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self._removals.await_revocation(group_id, after, now_ms)
            else:
                self._removals.end_revocation(group_id, after.member_id)
        self._removals.renew_session(group_id, after.member_id, now_ms)

    def _response(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        before: ConsumerMember,
        after: ConsumerMember,
    ) -> ConsumerGroupHeartbeatResponse:
        says_all = (
            request.topic_partitions is not None
            and request.rebalance_timeout_ms != -1
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
        )
        tells = says_all or request.member_epoch == JOIN_EPOCH or before.assigned != after.assigned
        return ConsumerGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=self._context.configs.heartbeat_interval_ms(group.group_id),
            assignment=_assignment(after.assigned) if tells else None,
        )

    # Leaving

    def leave(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        now_ms: int,
        token: Token,
    ) -> Steps[Output]:
        """Decide on a heartbeat of epoch -1 or -2. Raises KafkaError if another member's."""
        member_id, instance_id = request.member_id, request.instance_id
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = known_static(group.static_member(instance_id), member_id, instance_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        if instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            logger.info(
                "static member leaves temporarily group=%s member=%s", group.group_id, member_id
            )
            away = attrs.evolve(
                member,
                member_epoch=STATIC_LEAVE_EPOCH,
                assigned={t: dict.fromkeys(p, 0) for t, p in member.assigned.items()},
                revoking=NOTHING,
            )
            out = Output(records=[consumer_records.current_assignment(group.group_id, away)])
        else:
            logger.info("member leaves group=%s member=%s", group.group_id, member_id)
            cause = f"member {member_id} left"
            out = yield from self._removals.remove(group, [member], cause, now_ms)
        out.reply(token, response)
        return out


def take_place(
    group: ConsumerGroup,
    holder: ConsumerMember,
    member_id: str,
    written: list[Record],
    *,
    classic: bool,
) -> ConsumerMember:
    """Return a static member's successor, with its assignment; UNRELEASED_INSTANCE_ID if in use.

    Only a member that announced its return, or one of the classic protocol, is replaced.
    """
    if (
        not classic
        and not holder.uses_classic_protocol
        and holder.member_epoch != STATIC_LEAVE_EPOCH
    ):
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {holder.instance_id} cannot join the "
            f"group because the instance id is owned by {holder.member_id} member.",
        )
    successor = attrs.evolve(
        holder, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
    )
    group_id = group.group_id
    written += consumer_records.member_tombstones(group_id, holder.member_id)
    written.append(consumer_records.member_subscription(group_id, successor))
    written.append(consumer_records.target_member(group_id, member_id, group.target_of(holder)))
    written.append(consumer_records.current_assignment(group_id, successor))
    return successor


def known_static(holder: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the instance's member; UNKNOWN_MEMBER_ID for none, FENCED_INSTANCE_ID for another."""
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder.member_id}.",
        )
    return holder


def _refuse_epoch(member: ConsumerMember, epoch: int, claimed: Claimed) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's.

    The epoch before is enough when the member holds only partitions that it may hold: it has not
    seen the response with the present one.
    """
    if epoch == member.member_epoch:
        return
    if epoch > member.member_epoch:
        how = "greater"
    elif epoch == member.previous_member_epoch and is_subset(claimed, member.assigned):
        return
    else:
        how = "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.member_epoch}). The member must abandon all its partitions "
        "and rejoin.",
    )


def _cause(request: ConsumerGroupHeartbeatRequest, before: ConsumerMember) -> str:
    if request.member_epoch == JOIN_EPOCH:
        who = before.member_id
        return (
            f"member {who} joined"
            if request.instance_id is None
            else (f"static member {request.instance_id} joined as {who}")
        )
    return f"member {before.member_id} changed its subscription"


def _assignment(assigned: Owned) -> ConsumerGroupHeartbeatResponse.Assignment:
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            _Partitions(topic_id=topic_id, partitions=list(epochs))
            for topic_id, epochs in assigned.items()
        ]
    )


def _refuse_blank(value: str, message: str) -> None:
    if not value.strip():
        raise _invalid(message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
