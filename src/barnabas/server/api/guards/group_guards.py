"""Guards of the apis of groups."""

from collections.abc import Iterator
from typing import Any

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from barnabas.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from barnabas.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.server.api.guards.guarded_answers import Answer, completed
from barnabas.server.api.handler_services import GroupsContext
from barnabas.server.api.permissions import (
    may,
    may_on_cluster,
    operations_on,
    parted,
    permitted,
    require_group,
    require_on_cluster,
    require_transactional_id,
)
from barnabas.server.api.registry import Handler

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
ConsumerGroup = ConsumerGroupDescribeResponse.DescribedGroup

_GROUP_KEY, _TRANSACTION_KEY, _SHARE_KEY = 0, 1, 2
_BATCHED_KEYS_VERSION = 4
_SHARE_KEYS_VERSION = 6
_PROTOCOL_REQUIRED_VERSION = 5
_NULL_PROTOCOL_VERSION = 7
_NOT_REQUESTED = -(1 << 31)
_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


async def find_coordinator(
    ctx: GroupsContext, request: FindCoordinatorRequest, handler: Handler
) -> Answer:
    """DESCRIBE on the group or the transactional id; share coordinators are for brokers."""
    if ctx.version < _BATCHED_KEYS_VERSION:
        if request.key_type == _GROUP_KEY:
            require_group(ctx, DESCRIBE, request.key)
        elif request.key_type == _TRANSACTION_KEY:
            require_transactional_id(ctx, DESCRIBE, request.key)
        return await handler(ctx, request)
    if request.key_type == _SHARE_KEY and ctx.version >= _SHARE_KEYS_VERSION:
        require_on_cluster(ctx, AclOperation.CLUSTER_ACTION)
    kind, code = {
        _GROUP_KEY: (GROUP, _DENIED),
        _TRANSACTION_KEY: (
            ResourceType.TRANSACTIONAL_ID,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    }.get(request.key_type, (None, ErrorCode.NONE))
    asked = request.coordinator_keys
    if kind is not None:
        request.coordinator_keys = [key for key in asked if may(ctx, DESCRIBE, kind, key)]
    response = await handler(ctx, request)
    found = {each.key: each for each in response.coordinators}
    response.coordinators = [found.get(key) or _no_coordinator(key, code) for key in asked]
    return response


def _no_coordinator(key: str, code: ErrorCode) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code
    )


def join_group(ctx: GroupsContext, request: JoinGroupRequest, handler: Handler) -> Answer:
    """READ on the group."""
    if may(ctx, READ, GROUP, request.group_id):
        return handler(ctx, request)
    name = None if ctx.version >= _NULL_PROTOCOL_VERSION else ""
    return JoinGroupResponse(error_code=_DENIED, protocol_name=name)


def sync_group(ctx: GroupsContext, request: SyncGroupRequest, handler: Handler) -> Answer:
    """READ on the group, after the check of the request's fields."""
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if has_protocol or ctx.version < _PROTOCOL_REQUIRED_VERSION:
        require_group(ctx, READ, request.group_id)
    return handler(ctx, request)


def heartbeat(ctx: GroupsContext, request: HeartbeatRequest, handler: Handler) -> Answer:
    """READ on the group."""
    require_group(ctx, READ, request.group_id)
    return handler(ctx, request)


def leave_group(ctx: GroupsContext, request: LeaveGroupRequest, handler: Handler) -> Answer:
    """READ on the group."""
    require_group(ctx, READ, request.group_id)
    return handler(ctx, request)


def list_groups(ctx: GroupsContext, request: ListGroupsRequest, handler: Handler) -> Answer:
    """DESCRIBE on the cluster shows all groups; on a group, that one."""
    if may_on_cluster(ctx, DESCRIBE, log_denied=False):
        return handler(ctx, request)

    def complete(response: ListGroupsResponse) -> None:
        response.groups = [
            each for each in response.groups if may(ctx, DESCRIBE, GROUP, each.group_id,
                                                    log_denied=False)
        ]  # fmt: skip

    return completed(handler(ctx, request), complete)


def describe_groups(ctx: GroupsContext, request: DescribeGroupsRequest, handler: Handler) -> Answer:
    """DESCRIBE on each group."""
    asked, shown = request.groups, list[str]()
    for group_id in asked:
        if may(ctx, DESCRIBE, GROUP, group_id):
            shown.append(group_id)
    request.groups = shown
    denied = [group_id for group_id in asked if group_id not in shown]

    def complete(response: DescribeGroupsResponse) -> None:
        _show_operations(ctx, response.groups)
        response.groups = [
            *(DescribeGroupsResponse.DescribedGroup(group_id=each, error_code=_DENIED)
              for each in denied),
            *response.groups,
        ]  # fmt: skip

    return completed(handler(ctx, request), complete)


def _show_operations(ctx: GroupsContext, groups: Any) -> None:
    for group in groups:
        if group.authorized_operations != _NOT_REQUESTED:
            group.authorized_operations = operations_on(ctx, GROUP, group.group_id)


def delete_groups(ctx: GroupsContext, request: DeleteGroupsRequest, handler: Handler) -> Answer:
    """DELETE on each group."""
    asked = dict.fromkeys(request.groups_names)
    request.groups_names, denied = parted(ctx, AclOperation.DELETE, GROUP, asked, str)
    answers = [
        DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=_DENIED)
        for group_id in denied
    ]
    return completed(handler(ctx, request), lambda response: response.results.extend(answers))


def consumer_group_heartbeat(
    ctx: GroupsContext, request: ConsumerGroupHeartbeatRequest, handler: Handler
) -> Answer:
    """READ on the group, and DESCRIBE on each topic that the request names."""
    if ctx.services.groups.serves_consumer_groups:
        names = dict.fromkeys(request.subscribed_topic_names or ())
        if not may(ctx, READ, GROUP, request.group_id):
            return ConsumerGroupHeartbeatResponse(error_code=_DENIED)
        if len(permitted(ctx, DESCRIBE, TOPIC, names)) < len(names):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return ConsumerGroupHeartbeatResponse(error_code=code)
    return handler(ctx, request)


def consumer_group_describe(
    ctx: GroupsContext, request: ConsumerGroupDescribeRequest, handler: Handler
) -> Answer:
    """DESCRIBE on each group, and on each topic that its members are assigned."""
    if not ctx.services.groups.serves_consumer_groups:
        return handler(ctx, request)
    request.group_ids, denied = _described(ctx, request.group_ids)

    def complete(response: ConsumerGroupDescribeResponse) -> None:
        _show_operations(ctx, response.groups)
        names = {name for group in response.groups for name in _assigned_topics(group)}
        shown = permitted(ctx, DESCRIBE, TOPIC, names)
        refusals = [ConsumerGroup(group_id=each, error_code=_DENIED) for each in denied]
        groups = [
            group if shown.issuperset(_assigned_topics(group)) else _hidden(group)
            for group in response.groups
        ]
        response.groups = refusals + groups

    return completed(handler(ctx, request), complete)


def _described(ctx: GroupsContext, group_ids: list[str]) -> tuple[list[str], list[str]]:
    """Return the groups that the sender may describe, and the others."""
    shown = list[str]()
    denied = list[str]()
    for group_id in group_ids:
        (shown if may(ctx, DESCRIBE, GROUP, group_id) else denied).append(group_id)
    return shown, denied


def _assigned_topics(group: ConsumerGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


def _hidden(group: ConsumerGroup) -> ConsumerGroup:
    return ConsumerGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=_HIDDEN_TOPICS,
    )


def share_group_describe(
    ctx: GroupsContext, request: ShareGroupDescribeRequest, handler: Handler
) -> Answer:
    """DESCRIBE on each group; the handler describes none that has topics."""
    request.group_ids, denied = _described(ctx, request.group_ids)

    def complete(response: ShareGroupDescribeResponse) -> None:
        answer = ShareGroupDescribeResponse.DescribedGroup
        refusals = [answer(group_id=each, error_code=_DENIED) for each in denied]
        response.groups = refusals + response.groups

    return completed(handler(ctx, request), complete)


def streams_group_describe(
    ctx: GroupsContext, request: StreamsGroupDescribeRequest, handler: Handler
) -> Answer:
    """DESCRIBE on each group; the handler describes none that has topics."""
    request.group_ids, denied = _described(ctx, request.group_ids)

    def complete(response: StreamsGroupDescribeResponse) -> None:
        answer = StreamsGroupDescribeResponse.DescribedGroup
        refusals = [answer(group_id=each, error_code=_DENIED) for each in denied]
        response.groups = refusals + response.groups

    return completed(handler(ctx, request), complete)
