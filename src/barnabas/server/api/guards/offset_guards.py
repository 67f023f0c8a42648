"""Guards of OffsetCommit, OffsetFetch and OffsetDelete."""

from typing import Any

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.coordinator.groups.committed_offsets import FetchedGroup, FetchGroup
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.server.api.guards.guarded_answers import Answer, completed
from barnabas.server.api.handler_services import GroupsContext
from barnabas.server.api.handlers.groups.offset_handlers import (
    BATCHED_FETCH_VERSION,
    TOPIC_ID_VERSION,
    single_group_response,
)
from barnabas.server.api.permissions import may, parted, permitted, require_group
from barnabas.server.api.registry import Handler

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def offset_commit(ctx: GroupsContext, request: OffsetCommitRequest, handler: Handler) -> Answer:
    """READ on the group, and READ on each topic; the handler answers an unknown topic id."""
    require_group(ctx, READ, request.group_id)
    request.topics, denied = _parted_by_name_or_id(ctx, READ, request.topics)
    answers = [
        OffsetCommitResponse.OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponse.OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=_DENIED
                )
                for partition in topic.partitions
            ],
        )
        for topic in denied
    ]

    def complete(response: OffsetCommitResponse) -> None:
        response.topics = answers + response.topics

    return completed(handler(ctx, request), complete)


def _parted_by_name_or_id(
    ctx: GroupsContext, operation: AclOperation, topics: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the topics that the sender may use, or whose id is unknown, and the others."""
    known: list[Any] = []
    unknown: list[Any] = []
    for topic in topics:
        if ctx.version >= TOPIC_ID_VERSION:
            found = ctx.services.image().topics_by_id.get(topic.topic_id)
            if found is None:
                unknown.append(topic)
                continue
            topic.name = found.name
        known.append(topic)
    shown, denied = parted(ctx, operation, TOPIC, known, lambda topic: topic.name)
    return shown + unknown, denied


async def offset_fetch(ctx: GroupsContext, request: OffsetFetchRequest, handler: Handler) -> Answer:
    """DESCRIBE on each group, and on each topic."""
    if ctx.version < BATCHED_FETCH_VERSION:
        return await _fetch_one_group(ctx, request, handler)
    groups: list[FetchedGroup] = []
    for group in request.groups:
        if not may(ctx, DESCRIBE, GROUP, group.group_id):
            groups.append(
                FetchedGroup(
                    group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
            )
            continue
        wants_all, denied = group.topics is None, list[Any]()
        if group.topics is not None:
            group.topics, denied = _parted_by_name_or_id(ctx, DESCRIBE, group.topics)
        request.groups = [group]
        (fetched,) = (await handler(ctx, request)).groups
        if wants_all:
            shown = permitted(ctx, DESCRIBE, TOPIC, [topic.name for topic in fetched.topics])
            fetched.topics = [topic for topic in fetched.topics if topic.name in shown]
        elif not fetched.error_code:
            fetched.topics += [_unfetched(topic, ctx.version) for topic in denied]
        groups.append(fetched)
    return OffsetFetchResponse(groups=groups)


def _unfetched(topic: Any, version: int) -> OffsetFetchResponse.OffsetFetchResponseTopics:
    answer = OffsetFetchResponse.OffsetFetchResponseTopics(
        partitions=[
            OffsetFetchResponse.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, error_code=_DENIED
            )
            for index in topic.partition_indexes
        ]
    )
    if version >= TOPIC_ID_VERSION:
        answer.topic_id = topic.topic_id
    else:
        answer.name = topic.name
    return answer


async def _fetch_one_group(
    ctx: GroupsContext, request: OffsetFetchRequest, handler: Handler
) -> OffsetFetchResponse:
    """Answer a version that asks for one group."""
    if not may(ctx, DESCRIBE, GROUP, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        topics = None if request.topics is None else [
            OffsetFetchRequest.OffsetFetchRequestTopics(
                name=topic.name, partition_indexes=topic.partition_indexes
            )
            for topic in request.topics
        ]  # fmt: skip
        return single_group_response(
            ctx.version,
            FetchGroup(group_id=request.group_id, topics=topics),
            FetchedGroup(group_id=request.group_id, topics=[], error_code=code),
        )
    wants_all, denied = request.topics is None, list[OffsetFetchRequest.OffsetFetchRequestTopic]()
    if request.topics is not None:
        request.topics, denied = parted(
            ctx, DESCRIBE, TOPIC, request.topics, lambda topic: topic.name
        )
    response: OffsetFetchResponse = await handler(ctx, request)
    if wants_all:
        shown = permitted(ctx, DESCRIBE, TOPIC, [topic.name for topic in response.topics])
        response.topics = [topic for topic in response.topics if topic.name in shown]
    elif not response.error_code:
        response.topics += [
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, error_code=_DENIED
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in denied
        ]
    return response


def offset_delete(ctx: GroupsContext, request: OffsetDeleteRequest, handler: Handler) -> Answer:
    """DELETE on the group, and READ on each topic."""
    require_group(ctx, AclOperation.DELETE, request.group_id)
    request.topics, denied = parted(ctx, READ, TOPIC, request.topics, lambda topic: topic.name)
    answers = [
        OffsetDeleteResponse.OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponse.OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index, error_code=_DENIED
                )
                for partition in topic.partitions
            ],
        )
        for topic in denied
    ]

    def complete(response: OffsetDeleteResponse) -> None:
        if not response.error_code:
            response.topics = answers + response.topics

    return completed(handler(ctx, request), complete)
