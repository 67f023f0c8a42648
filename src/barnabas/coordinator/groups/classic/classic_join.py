"""JoinGroup v0-9: new members, dynamic and static ones, and members that join again.

v4+ gives a new dynamic member its id first (KIP-394), v5+ supports static members (KIP-345), v9
makes a returning static leader keep the assignment (KIP-814).
"""

import logging
from collections.abc import Sequence

from barnabas.coordinator.core.coordinator_output import Caller, Output, Record, Token
from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.coordinator.groups.classic.classic_member import ClassicMember, Protocols
from barnabas.coordinator.groups.classic.classic_rebalance import Rebalancer
from barnabas.coordinator.groups.classic.classic_responses import (
    UNKNOWN_MEMBER,
    join_error,
    joined,
    sync_error,
)
from barnabas.coordinator.groups.classic.classic_state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from barnabas.coordinator.groups.offset_and_group_records import group_metadata
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.records.group_records import GroupMetadataValue

logger = logging.getLogger(__name__)

MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9


class Joins:
    """Decides on JoinGroup requests to classic groups."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer
        self._settings = rebalancer.settings

    def join(
        self,
        group: ClassicGroup | None,
        request: JoinGroupRequest,
        caller: Caller,
        fresh_uuid: str,
        now_ms: int,
        token: Token,
        preceding: Sequence[Record] = (),
    ) -> Output:
        """Answer at once or park `token`; a new group is written before it has members.

        `preceding` are the records that end an empty group of another type.
        """
        if group is not None:
            return self._join(group, request, caller, fresh_uuid, now_ms, token)
        out = Output()
        if request.member_id != UNKNOWN_MEMBER:
            out.reply(token, join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            return out
        group_id = request.group_id
        out.records += preceding
        out.records.append(
            group_metadata(group_id, ClassicGroup(group_id, now_ms).record_value({}))
        )

        def then(then_ms: int) -> Output:
            created = self._rebalancer.find(group_id)
            if created is None:
                raise RuntimeError(f"replay did not create group {group_id}")
            return self._join(created, request, caller, fresh_uuid, then_ms, token)

        def refused(error: ErrorCode, _now_ms: int) -> Output:
            answer = Output()
            answer.reply(token, join_error(UNKNOWN_MEMBER, error))
            return answer

        out.then, out.refused = then, refused
        return out

    def _join(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
        fresh_uuid: str,
        now_ms: int,
        token: Token,
    ) -> Output:
        member_id = request.member_id
        out = Output()
        if not self._accepts(group, member_id):
            group.remove(member_id)
            out.reply(token, join_error(UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED))
            return out
        if group.state is DEAD:
            out.reply(token, join_error(member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return out
        if not group.supports_protocols(
            request.protocol_type, {protocol.name for protocol in request.protocols}
        ):
            out.reply(token, join_error(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return out
        if member_id != UNKNOWN_MEMBER:
            return self._join_known(group, request, caller, now_ms, token)
        instance_id = request.group_instance_id
        if instance_id is None:
            return self._join_new_dynamic(group, request, caller, fresh_uuid, now_ms, token)
        new_id = f"{instance_id}-{fresh_uuid}"
        if instance_id in group.static_members:
            return self._join_static_again(group, request, caller, new_id, now_ms, token)
        return self._add(group, request, caller, new_id, now_ms, token)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """True when there is room (group.max.size).

        During the join phase only members that have rejoined count, so a lowered limit keeps out
        the last ones.
        """
        size_max = self._settings.max_size
        if group.state in (EMPTY, DEAD) or len(group.members) < size_max:
            return True
        member = group.members.get(member_id)
        if group.state is PREPARING_REBALANCE:
            waits = member is not None and member.awaiting_join is not None
            return waits or group.awaiting_join_count < size_max
        return member is not None

    def _join_new_dynamic(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
        fresh_uuid: str,
        now_ms: int,
        token: Token,
    ) -> Output:
        new_id = f"{caller.client_id}-{fresh_uuid}"
        if caller.version < MEMBER_ID_REQUIRED_VERSION:
            return self._add(group, request, caller, new_id, now_ms, token)
        group.pending_joins.add(new_id)
        self._rebalancer.schedule_session(
            group.group_id, new_id, now_ms + request.session_timeout_ms
        )
        out = Output()
        out.reply(token, join_error(new_id, ErrorCode.MEMBER_ID_REQUIRED))
        return out

    def _join_known(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
        now_ms: int,
        token: Token,
    ) -> Output:
        member_id = request.member_id
        out = Output()
        if member_id in group.pending_joins:
            if request.group_instance_id is None:
                return self._add(group, request, caller, member_id, now_ms, token)
            # A member id that a dynamic member got: only a faulty client sends this.
            out.reply(token, join_error(UNKNOWN_MEMBER, ErrorCode.UNKNOWN_SERVER_ERROR))
            return out
        try:
            group.validate_member(member_id, request.group_instance_id)
        except KafkaError as error:
            out.reply(token, join_error(member_id, error.code))
            return out
        member = group.members[member_id]
        is_leader = group.is_leader(member_id)
        changed = list(member.protocols) != _protocols(request)
        if group.state is PREPARING_REBALANCE:
            return self._rejoin(group, member, request, "a member rejoins", now_ms, token)
        if changed:
            return self._rejoin(group, member, request, "a member changed", now_ms, token)
        if group.state is STABLE and is_leader:
            # In this way a leader requests a new assignment, for example after a topic has grown.
            return self._rejoin(group, member, request, "the leader rejoins", now_ms, token)
        out.reply(
            token,
            joined(
                group, member_id, with_members=is_leader and group.state is COMPLETING_REBALANCE
            ),
        )
        return out

    def _rejoin(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroupRequest,
        cause: str,
        now_ms: int,
        token: Token,
    ) -> Output:
        out = Output()
        if member.awaiting_join is not None:
            # The member has sent its join again: only the later request gets a full response.
            out.reply(
                member.awaiting_join,
                join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS),
            )
        group.update(
            member,
            _protocols(request),
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            token,
        )
        reason = _reason(f"{cause}: {member.member_id}", request)
        return out.absorb(self._rebalancer.prepare_or_complete(group, reason, now_ms))

    def _add(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
        member_id: str,
        now_ms: int,
        token: Token,
    ) -> Output:
        member = ClassicMember(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=caller.client_id,
            client_host=caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=_protocols(request),
            is_new=True,
        )
        if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
            group.new_member_added = True
        group.add(member, token)
        # A new member cannot send heartbeats, and its disconnect is not seen while its request is
        # parked. A client that retries a long join must not leave many dead members.
        self._rebalancer.renew_session(
            group, member, now_ms, self._settings.new_member_join_timeout_ms
        )
        reason = _reason(f"new member {member_id}", request)
        return self._rebalancer.prepare_or_complete(group, reason, now_ms)

    # Static members that return without their member id

    def _join_static_again(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
        new_id: str,
        now_ms: int,
        token: Token,
    ) -> Output:
        """Replace the predecessor of a static member, which is fenced.

        In a stable group whose protocol stays the same no other member notices: the successor takes
        over the assignment, and its id is written.
        """
        instance_id = request.group_instance_id or ""
        old_id = group.static_members[instance_id]
        protocols = _protocols(request)
        if group.state is STABLE:
            self._rebalancer.schedule_session(
                group.group_id, new_id, now_ms + request.session_timeout_ms
            )
            if group.select_protocol({old_id: protocols}) == group.protocol_name:
                return self._take_over_quietly(group, request, caller, (old_id, new_id), token)
        out = Output()
        old = group.members[old_id]
        if old.awaiting_join is not None:
            out.reply(old.awaiting_join, join_error(old_id, ErrorCode.FENCED_INSTANCE_ID))
        if old.awaiting_sync is not None:
            out.reply(old.awaiting_sync, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        self._rebalancer.timers.cancel(("session", group.group_id, old_id))
        member = group.replace_static_member(instance_id, new_id)
        group.update(
            member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms, token
        )
        self._rebalancer.renew_session(group, member, now_ms)
        reason = _reason(f"static member {instance_id} is back as {new_id}", request)
        return out.absorb(self._rebalancer.prepare_or_complete(group, reason, now_ms))

    def _take_over_quietly(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
        ids: tuple[str, str],
        token: Token,
    ) -> Output:
        old_id, new_id = ids
        old_leader = group.leader_id
        value = _with_successor(group, request, old_id, new_id)

        def then(_now_ms: int) -> Output:
            # The record holds one protocol, the member offers all of its request.
            member = group.members[new_id]
            group.update(
                member,
                _protocols(request),
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                None,
            )
            self._rebalancer.timers.cancel(("session", group.group_id, old_id))
            answer = Output()
            if caller.version >= SKIP_ASSIGNMENT_VERSION:
                is_leader = group.is_leader(new_id)
                answer.reply(
                    token,
                    joined(group, new_id, with_members=is_leader, skip_assignment=is_leader),
                )
            else:
                # With the leader before it, an old client does not compute a new assignment.
                answer.reply(token, joined(group, new_id, leader=old_leader))
            return answer

        def refused(error: ErrorCode, _now_ms: int) -> Output:
            self._rebalancer.timers.cancel(("session", group.group_id, new_id))
            answer = Output()
            response = joined(group, UNKNOWN_MEMBER, leader=old_leader)
            response.error_code = error
            answer.reply(token, response)
            return answer

        return Output(records=[group_metadata(group.group_id, value)], then=then, refused=refused)


def _with_successor(
    group: ClassicGroup, request: JoinGroupRequest, old_id: str, new_id: str
) -> GroupMetadataValue:
    """Return the group's record with a static member's successor in its place."""
    value = group.record_value({m.member_id: m.assignment for m in group.members.values()})
    offered = dict(_protocols(request))
    for member in value.members:
        if member.member_id == old_id:
            member.member_id = new_id
            member.rebalance_timeout = request.rebalance_timeout_ms
            member.session_timeout = request.session_timeout_ms
            member.subscription = offered[value.protocol or ""]
    if value.leader == old_id:
        value.leader = new_id
    return value


def _protocols(request: JoinGroupRequest) -> Protocols:
    return [(protocol.name, protocol.metadata) for protocol in request.protocols]


def _reason(cause: str, request: JoinGroupRequest) -> str:
    return f"{cause}; client reason: {request.reason or 'not provided'}"
