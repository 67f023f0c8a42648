"""The apis of groups for members and administrators.

JoinGroup v0-9, SyncGroup v0-5, Heartbeat v0-4, LeaveGroup v0-5, ListGroups v0-5, DescribeGroups
v0-6, DeleteGroups v0-2. The coordinator uses each api's newest layout; the handlers convert from
and to older versions.
"""

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.server.api.handler_services import GroupsContext
from barnabas.server.api.handlers.groups.group_errors import GROUP_OPERATIONS, caller


async def join_group(ctx: GroupsContext, request: JoinGroupRequest) -> JoinGroupResponse:
    """Join a group; waits for the other members."""
    if ctx.version < 1:
        request.rebalance_timeout_ms = request.session_timeout_ms
    try:
        response = await ctx.services.groups.join_group(request, caller(ctx))
    except KafkaError as error:
        response = JoinGroupResponse(error_code=error.code, protocol_name=None)
    if ctx.version < 7 and response.protocol_name is None:
        response.protocol_name = ""
    return response


async def sync_group(ctx: GroupsContext, request: SyncGroupRequest) -> SyncGroupResponse:
    """Sync; waits for the leader. Since v5 a member must send its protocol (KIP-559)."""
    if ctx.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        return await ctx.services.groups.sync_group(request)
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)


async def heartbeat(ctx: GroupsContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Renew a session; while groups are loading every heartbeat succeeds."""
    try:
        return await ctx.services.groups.heartbeat(request)
    except KafkaError as error:
        loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else error.code)


async def leave_group(ctx: GroupsContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove members; before v3 one member leaves, and its error is the response's."""
    single = ctx.version < 3
    if single:
        request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    try:
        response = await ctx.services.groups.leave_group(request)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            response = _no_such_group(request)
        else:
            response = LeaveGroupResponse(error_code=error.code)
    if single:
        member_error = response.members[0].error_code if response.members else 0
        return LeaveGroupResponse(error_code=response.error_code or member_error)
    return response


def _no_such_group(request: LeaveGroupRequest) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for member in request.members
        ]
    )


async def list_groups(ctx: GroupsContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """Return the groups of this node in the requested states and of the requested types."""
    try:
        groups = await ctx.services.groups.list_groups(request.states_filter, request.types_filter)
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(groups=groups)


async def describe_groups(
    ctx: GroupsContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Return each group with its members, or its error."""
    groups: list[DescribeGroupsResponse.DescribedGroup] = []
    for group_id in request.groups:
        try:
            group = await ctx.services.groups.describe_group(group_id, ctx.version)
        except KafkaError as error:
            group = DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=error.code)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
        groups.append(group)
    return DescribeGroupsResponse(groups=groups)


async def delete_groups(ctx: GroupsContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete groups without members; each has its own error."""
    results: list[DeleteGroupsResponse.DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        try:
            result = await ctx.services.groups.delete_group(group_id)
        except KafkaError as error:
            result = DeleteGroupsResponse.DeletableGroupResult(
                group_id=group_id, error_code=error.code
            )
        results.append(result)
    return DeleteGroupsResponse(results=results)
