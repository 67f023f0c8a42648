"""ShareGroupDescribe v1 and StreamsGroupDescribe v0: no group is of these types.

The error of a group that exists says that its type is another one. As in Apache Kafka, the groups
with an empty id come first in the response.
"""

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from barnabas.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from barnabas.server.api.handler_services import GroupsContext


def share_group_describe(
    ctx: GroupsContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Return an error for each group."""
    groups: list[ShareGroupDescribeResponse.DescribedGroup] = []
    for group_id in sorted(request.group_ids, key=bool):
        code, message = _error(ctx, group_id, "a share group")
        if code is ErrorCode.NOT_COORDINATOR:
            message = "This is not the correct coordinator."
        groups.append(
            ShareGroupDescribeResponse.DescribedGroup(
                group_id=group_id, error_code=code, error_message=message
            )
        )
    return ShareGroupDescribeResponse(groups=groups)


def streams_group_describe(
    ctx: GroupsContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    """Return an error for each group."""
    groups: list[StreamsGroupDescribeResponse.DescribedGroup] = []
    for group_id in sorted(request.group_ids, key=bool):
        code, message = _error(ctx, group_id, "a streams group")
        groups.append(
            StreamsGroupDescribeResponse.DescribedGroup(
                group_id=group_id, error_code=code, error_message=message
            )
        )
    return StreamsGroupDescribeResponse(groups=groups)


def _error(ctx: GroupsContext, group_id: str, kind: str) -> tuple[ErrorCode, str | None]:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID, None
    try:
        exists = ctx.services.groups.has_group(group_id)
    except KafkaError as error:
        return error.code, None
    problem = f"is not {kind}." if exists else "not found."
    return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}"
