"""SyncGroup v0-5, Heartbeat v0-4 and LeaveGroup v0-5 to classic groups."""

import logging

from barnabas.coordinator.core.coordinator_output import Output, Token
from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.coordinator.groups.classic.classic_rebalance import Rebalancer
from barnabas.coordinator.groups.classic.classic_responses import UNKNOWN_MEMBER, sync_error, synced
from barnabas.coordinator.groups.classic.classic_state import (
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from barnabas.coordinator.groups.offset_and_group_records import group_metadata
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest

logger = logging.getLogger(__name__)


class Membership:
    """Decides on requests of members that have joined."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    # SyncGroup

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int, token: Token
    ) -> Output:
        """Return a member's assignment, or park the request until the leader has sent it."""
        out = Output()
        error = _sync_refusal(group, request)
        if error is not None:
            out.reply(token, sync_error(error))
        elif group.state is PREPARING_REBALANCE:
            out.reply(token, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        elif group.state is STABLE:
            self._rebalancer.note_sync(group, request.member_id)
            out.reply(token, synced(group, request.member_id))
        else:
            member = group.members[request.member_id]
            if member.awaiting_sync is not None:
                out.reply(member.awaiting_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
            member.awaiting_sync = token
            self._rebalancer.note_sync(group, request.member_id)
            if group.is_leader(request.member_id):
                return out.absorb(self._assign(group, request))
        return out

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest) -> Output:
        """Write the leader's assignment; its replay makes the group stable."""
        given = {a.member_id: a.assignment for a in request.assignments}
        logger.info(
            "assignment received from the leader group=%s generation=%d members=%d unassigned=%d",
            group.group_id,
            group.generation_id,
            len(group.members),
            len(group.members.keys() - given.keys()),
        )

        def then(now_ms: int) -> Output:
            answers = Output()
            self._rebalancer.answer_syncs(group, answers, now_ms)
            return answers

        def refused(error: ErrorCode, now_ms: int) -> Output:
            answers = Output()
            self._rebalancer.fail_syncs(group, error, answers, now_ms)
            reason = f"the assignment could not be written: {error.name}"
            return answers.absorb(self._rebalancer.prepare_or_complete(group, reason, now_ms))

        record = group_metadata(group.group_id, group.record_value(given))
        return Output(records=[record], then=then, refused=refused)

    # Heartbeat

    def heartbeat(
        self, group: ClassicGroup, request: HeartbeatRequest, now_ms: int, token: Token
    ) -> Output:
        """Renew the member's session. Raises KafkaError for a member that is not valid."""
        if group.state is DEAD:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator of the group has moved"
            )
        group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "the generation is no longer valid")
        self._rebalancer.renew_session(group, group.members[request.member_id], now_ms)
        rebalancing = group.state is PREPARING_REBALANCE
        out = Output()
        out.reply(
            token,
            HeartbeatResponse(
                error_code=ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE
            ),
        )
        return out

    # LeaveGroup

    def leave(
        self, group: ClassicGroup, request: LeaveGroupRequest, now_ms: int, token: Token
    ) -> Output:
        """Remove the named members; each has its own error code."""
        out = Output()
        if group.state is DEAD:
            out.reply(token, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return out
        answers: list[LeaveGroupResponse.MemberResponse] = []
        left: list[str] = []
        for identity in request.members:
            error = self._leave_one(group, identity, out)
            if error is ErrorCode.NONE:
                left.append(identity.member_id or identity.group_instance_id or "")
            answers.append(
                LeaveGroupResponse.MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=error,
                )
            )
        out.reply(token, LeaveGroupResponse(members=answers))
        if left and group.state not in (EMPTY, DEAD):
            reason = f"members left: {', '.join(left)}"
            out.absorb(self._rebalancer.prepare_or_complete(group, reason, now_ms))
        return out

    def _leave_one(
        self, group: ClassicGroup, identity: LeaveGroupRequest.MemberIdentity, out: Output
    ) -> ErrorCode:
        """Remove one member; administrators name static members by instance id only."""
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id == UNKNOWN_MEMBER:
            if instance_id is None or instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[instance_id]
        elif member_id in group.pending_joins:
            self._rebalancer.timers.cancel(("session", group.group_id, member_id))
            group.remove(member_id)
            return ErrorCode.NONE
        else:
            try:
                group.validate_member(member_id, instance_id)
            except KafkaError as error:
                return error.code
        logger.info(
            "member leaves group=%s member=%s reason=%s",
            group.group_id,
            member_id,
            identity.reason or "not provided",
        )
        self._rebalancer.remove(group, group.members[member_id], out)
        return ErrorCode.NONE


def _sync_refusal(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode | None:
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    try:
        group.validate_member(request.member_id, request.group_instance_id)
    except KafkaError as error:
        return error.code
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    for said, holds in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if said is not None and holds is not None and said != holds:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None
