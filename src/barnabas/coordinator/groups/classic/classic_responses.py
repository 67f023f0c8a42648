"""The responses of the classic protocol.

They are in the newest version; handlers replace what an older version cannot carry as null.
"""

from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse

UNKNOWN_MEMBER = ""


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    """A refused join."""
    return JoinGroupResponse(
        member_id=member_id, error_code=error, protocol_type=None, protocol_name=None
    )


def joined(
    group: ClassicGroup,
    member_id: str,
    *,
    leader: str | None = None,
    with_members: bool = False,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The present generation, for one member.

    `with_members` includes all subscriptions, for the member that makes the assignment. `leader`
    replaces the group's leader.
    """
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader or group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]
        if with_members
        else [],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A sync without an assignment."""
    return SyncGroupResponse(
        error_code=error, protocol_type=None, protocol_name=None, assignment=b""
    )


def synced(group: ClassicGroup, member_id: str) -> SyncGroupResponse:
    """A member's assignment in the present generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=group.members[member_id].assignment,
    )
