"""The apis of consumer groups (KIP-848): ConsumerGroupHeartbeat v0-1, ConsumerGroupDescribe v0-1.

Members of the classic protocol in such a group use the apis of `group_handlers`.
"""

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.server.api.handler_services import GroupsContext
from barnabas.server.api.handlers.groups.group_errors import GROUP_OPERATIONS, caller


async def consumer_group_heartbeat(
    ctx: GroupsContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Decide on a heartbeat; an error has a message, which clients show."""
    if not ctx.services.groups.serves_consumer_groups:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        return await ctx.services.groups.consumer_heartbeat(request, caller(ctx))
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None
        )


async def consumer_group_describe(
    ctx: GroupsContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Return each group with its members, or its error."""
    enabled = ctx.services.groups.serves_consumer_groups
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = []
    for group_id in request.group_ids:
        group = ConsumerGroupDescribeResponse.DescribedGroup(group_id=group_id)
        if not enabled:
            group.error_code = ErrorCode.UNSUPPORTED_VERSION
        elif not group_id:
            group.error_code = ErrorCode.INVALID_GROUP_ID
        else:
            try:
                group = await ctx.services.groups.describe_consumer_group(group_id)
            except KafkaError as error:
                group.error_code = error.code
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
        groups.append(group)
    return ConsumerGroupDescribeResponse(groups=groups)
