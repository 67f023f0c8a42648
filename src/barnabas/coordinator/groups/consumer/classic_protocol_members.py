"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

They see the group's changes in the classic terms. A heartbeat with REBALANCE_IN_PROGRESS makes them
rejoin. A join never waits and names no leader: it reports the partitions that the member still
holds, and moves the member one step. A sync returns the member's assignment. Kafka:
GroupMetadataManager.classicGroupJoinToConsumerGroup and its siblings.
"""

import logging

import attrs

from barnabas.coordinator.core.coordinator_output import Caller, Output, Record, Token
from barnabas.coordinator.core.steps import Steps
from barnabas.coordinator.groups.consumer import embedded_protocol
from barnabas.coordinator.groups.consumer.consumer_group import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerGroup,
)
from barnabas.coordinator.groups.consumer.consumer_heartbeat import known_static, take_place
from barnabas.coordinator.groups.consumer.consumer_member import (
    ClassicPart,
    ConsumerMember,
    MemberState,
)
from barnabas.coordinator.groups.consumer.member_removal import Removals
from barnabas.coordinator.groups.consumer.migration import Downgrades
from barnabas.coordinator.groups.consumer.reconciliation import Claimed
from barnabas.coordinator.groups.consumer.target_assignment import Change, GroupContext, Rebalances
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

_Held = ConsumerGroupHeartbeatRequest.TopicPartitions
_MEMBER_ID_REQUIRED_VERSION = 4


class ClassicMembers:
    """Decides on requests of the classic protocol to consumer groups that have members."""

    def __init__(
        self,
        context: GroupContext,
        rebalances: Rebalances,
        removals: Removals,
        downgrades: Downgrades,
    ) -> None:
        self._context = context
        self._rebalances = rebalances
        self._removals = removals
        self._downgrades = downgrades

    # JoinGroup

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        fresh_uuid: str,
        now_ms: int,
        token: Token,
    ) -> Steps[Output]:
        """Answer when the records are written. Raises KafkaError for a refused join."""
        member_id = request.member_id or fresh_uuid
        self._refuse(group, request, member_id)
        instance_id = request.group_instance_id
        if (
            not request.member_id
            and instance_id is None
            and caller.version >= _MEMBER_ID_REQUIRED_VERSION
        ):
            out = Output()
            out.reply(
                token,
                JoinGroupResponse(
                    member_id=member_id,
                    error_code=ErrorCode.MEMBER_ID_REQUIRED,
                    protocol_type=None,
                    protocol_name=None,
                ),
            )
            return out
        written: list[Record] = []
        holder = group.static_member(instance_id)
        if instance_id is None or (holder is None and not request.member_id):
            before = group.members.get(member_id) or ConsumerMember(member_id)
        elif not request.member_id and holder is not None:
            before = take_place(group, holder, member_id, written, classic=True)
        else:
            before = known_static(holder, member_id, instance_id)
        subscription = _subscription(request)
        after = _joined(before, request, subscription, caller)
        change = Change(group, before, after, now_ms, written)
        held = self._held(subscription)
        if holder is not None and self._downgrades.allows_replacing(group, holder):
            return (yield from self._join_and_downgrade(change, holder, held, request, token))
        cause = f"classic member {member_id} joined"
        joined = yield from self._rebalances.advance(change, held, cause=cause, classic=True)
        group_id = group.group_id
        self._removals.end_join(group_id, member_id)
        self._removals.renew_session(group_id, member_id, now_ms, request.session_timeout_ms)
        self._removals.await_sync(group_id, joined, now_ms)
        out = Output(records=written)
        out.reply(token, _join_response(joined))
        regexes = change.regexes
        if regexes:
            out.then = lambda _then_ms: self._rebalances.ask_to_resolve(group_id, regexes, caller)
        return out

    def _refuse(self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
        size_max = self._context.configs.settings.consumer_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {size_max} members.",
            )
        names = {protocol.name for protocol in request.protocols}
        if not group.supports_classic(request.protocol_type, names):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {member_id}'s protocols are not supported.",
            )

    def _held(self, subscription: ConsumerProtocolSubscription) -> Claimed:
        image = self._context.topics.image
        held = embedded_protocol.by_topic_id(subscription.owned_partitions, image)
        return [_Held(topic_id=topic_id, partitions=sorted(p)) for topic_id, p in held.items()]

    def _join_and_downgrade(
        self,
        change: Change,
        holder: ConsumerMember,
        held: Claimed,
        request: JoinGroupRequest,
        token: Token,
    ) -> Steps[Output]:
        """Downgrade: the last member of the consumer protocol returns with the classic one."""
        group = change.group
        changed, raises = self._rebalances.subscribe(change, classic=True)
        cause = f"static member {request.group_instance_id} came back with the classic protocol"
        epoch = yield from self._rebalances.raise_epoch(change, raises, cause)
        joined = change.after
        rebalances = group.assignment_epoch < epoch
        if not rebalances:
            target = group.target_of(joined)
            joined = yield from self._rebalances.reconcile(
                change, group.assignment_epoch, target, changed, held
            )
        out = self._downgrades.replacing(
            group, holder, joined, cause=cause if rebalances else None, now_ms=change.now_ms
        )
        out.records[:0] = change.records
        out.reply(token, _join_response(joined))
        return out

    # SyncGroup and Heartbeat

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int, token: Token
    ) -> Output:
        """Return a member's assignment. Raises KafkaError for a refused sync."""
        member, classic = self._member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        for said, holds in (
            (request.protocol_type, CONSUMER_PROTOCOL_TYPE),
            (request.protocol_name, classic.protocol_name),
        ):
            if said is not None and said != holds:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    f"protocol {said} is not the group's {holds}",
                )
        group_id = group.group_id
        if (
            group.assignment_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            self._removals.await_join(group_id, member, now_ms)
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"A new rebalance is triggered in group {group_id} and member "
                f"{member.member_id} should rejoin to catch up.",
            )
        self._removals.end_sync(group_id, member.member_id)
        self._removals.renew_session(group_id, member.member_id, now_ms, classic.session_timeout_ms)
        has = {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()}
        version = embedded_protocol.version_of(classic.protocols[0][1])
        out = Output()
        out.reply(
            token,
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=embedded_protocol.write_assignment(
                    has, self._context.topics.image, version
                ),
            ),
        )
        return out

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int, token: Token
    ) -> Output:
        """Renew a member's session; make it rejoin when that would move it one step."""
        member, classic = self._member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        group_id = group.group_id
        self._removals.renew_session(group_id, member.member_id, now_ms, classic.session_timeout_ms)
        error = ErrorCode.NONE
        if (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not group.awaits_release(member)
            )
        ):
            error = ErrorCode.REBALANCE_IN_PROGRESS
            self._removals.await_join(group_id, member, now_ms)
        out = Output()
        out.reply(token, HeartbeatResponse(error_code=error))
        return out

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> tuple[ConsumerMember, ClassicPart]:
        """Return the classic member of a request in its present generation. Raises KafkaError."""
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = known_static(group.static_member(instance_id), member_id, instance_id)
        if member.classic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} does not use the classic protocol.",
            )
        if generation_id != member.member_epoch:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                f"The request generation id {generation_id} is not equal to the member epoch "
                f"{member.member_epoch} of member {member_id}.",
            )
        return member, member.classic

    # LeaveGroup

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int, token: Token
    ) -> Steps[Output]:
        """Remove the named members, of either protocol; each has its own error code."""
        answers: list[LeaveGroupResponse.MemberResponse] = []
        leaving: dict[str, ConsumerMember] = {}
        for identity in request.members:
            answer = LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            answers.append(answer)
            try:
                member = _leaving(group, identity)
            except KafkaError as error:
                answer.error_code = error.code
                continue
            leaving[member.member_id] = member
            logger.info(
                "member leaves group=%s member=%s reason=%s",
                group.group_id,
                member.member_id,
                identity.reason or "not provided",
            )
        cause = f"members left: {', '.join(leaving)}"
        out = yield from self._removals.remove(group, list(leaving.values()), cause, now_ms)
        out.reply(token, LeaveGroupResponse(members=answers))
        return out


def _leaving(group: ConsumerGroup, identity: LeaveGroupRequest.MemberIdentity) -> ConsumerMember:
    """Return a leaving member; administrators name static members by instance id only."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    holder = group.static_member(instance_id)
    member_id = identity.member_id or ("" if holder is None else holder.member_id)
    return known_static(holder, member_id, instance_id)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return embedded_protocol.read_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"malformed consumer protocol: {error}"
        ) from error


def _joined(
    before: ConsumerMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    caller: Caller,
) -> ConsumerMember:
    """Return the member with the values of its join."""
    timeout_ms = request.rebalance_timeout_ms
    return attrs.evolve(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_names=frozenset(subscription.topics),
        subscribed_regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicPart(
            request.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        ),
    )


def _join_response(member: ConsumerMember) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=None if member.classic is None else member.classic.protocol_name,
        member_id=member.member_id,
    )
