"""Committed offsets: OffsetCommit v2-10, OffsetFetch v1-10, OffsetDelete v0.

From v10 on commits and look-ups name topics by id; the coordinator knows names, and the id beside
each as it was at the commit. OffsetFetch asks for one group before v8, for many since.
"""

from typing import TypeAlias

from barnabas.cluster.image import MetadataImage
from barnabas.coordinator.offsets import FetchedGroup, FetchGroup
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.server.context import RequestContext
from barnabas.server.dispatch import handles

CommitTopic: TypeAlias = OffsetCommitRequest.OffsetCommitRequestTopic
FetchTopic: TypeAlias = OffsetFetchRequest.OffsetFetchRequestTopics
FetchedTopic: TypeAlias = OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartition: TypeAlias = OffsetFetchResponse.OffsetFetchResponsePartitions
DeleteTopic: TypeAlias = OffsetDeleteRequest.OffsetDeleteRequestTopic

TOPIC_ID_VERSION = 10
BATCHED_FETCH_VERSION = 8
FETCH_TOP_LEVEL_ERROR_VERSION = 2

# Errors of a request's partitions: by the topic's place in the request and the partition.
Errors: TypeAlias = dict[tuple[int, int], ErrorCode]


# OffsetCommit


@handles(OffsetCommitRequest)
async def offset_commit(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Partitions that do not exist are refused here, the others go to the coordinator."""
    errors: Errors = {}
    asked = request.topics
    request.topics = _existing_topics(ctx.node.image, ctx.version, asked, errors)
    if request.topics:
        try:
            response = await ctx.node.groups.commit_offsets(request, ctx.version)
        except KafkaError as error:
            _set_rest(asked, errors, error.code)
        else:
            codes = {
                (topic.name, partition.partition_index): partition.error_code
                for topic in response.topics
                for partition in topic.partitions
            }
            for place, topic in enumerate(asked):
                for partition in topic.partitions:
                    index = partition.partition_index
                    if (topic.name, index) in codes:
                        errors.setdefault((place, index), ErrorCode(codes[topic.name, index]))
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=errors[place, partition.partition_index],
                    )
                    for partition in topic.partitions
                ],
            )
            for place, topic in enumerate(asked)
        ]
    )


def _existing_topics(
    image: MetadataImage, version: int, asked: list[CommitTopic], errors: Errors
) -> list[CommitTopic]:
    """The topics with the partitions that exist; each gets both its name and its id."""
    existing: list[CommitTopic] = []
    by_id = version >= TOPIC_ID_VERSION
    for place, topic in enumerate(asked):
        if by_id:
            known = image.topics_by_id.get(topic.topic_id)
        else:
            known = image.topics_by_name.get(topic.name)
        if known is None:
            missing = (
                ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            errors.update({(place, p.partition_index): missing for p in topic.partitions})
            continue
        topic.name, topic.topic_id = known.name, known.id
        partitions = [p for p in topic.partitions if p.partition_index in known.partitions]
        for partition in topic.partitions:
            if partition.partition_index not in known.partitions:
                where = place, partition.partition_index
                errors[where] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partitions:
            existing.append(
                CommitTopic(name=known.name, topic_id=known.id, partitions=partitions)
            )
    return existing


def _set_rest(asked: list[CommitTopic], errors: Errors, code: ErrorCode) -> None:
    for place, topic in enumerate(asked):
        for partition in topic.partitions:
            errors.setdefault((place, partition.partition_index), code)


# OffsetFetch


@handles(OffsetFetchRequest)
async def offset_fetch(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Each group's offsets, or its error."""
    if ctx.version >= BATCHED_FETCH_VERSION:
        return OffsetFetchResponse(
            groups=[
                await _fetch_group(ctx, group, require_stable=request.require_stable)
                for group in request.groups
            ]
        )
    topics = None
    if request.topics is not None:
        topics = [
            FetchTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = FetchGroup(group_id=request.group_id, topics=topics)
    fetched = await _fetch_group(ctx, group, require_stable=request.require_stable)
    return _single_group_response(ctx.version, group, fetched)


async def _fetch_group(
    ctx: RequestContext, group: FetchGroup, *, require_stable: bool
) -> FetchedGroup:
    image = ctx.node.image
    by_id = ctx.version >= TOPIC_ID_VERSION
    asked = group.topics
    if by_id and asked is not None:
        group.topics = _named(image, asked)
    try:
        fetched = await ctx.node.groups.fetch_offsets(group, require_stable=require_stable)
    except KafkaError as error:
        return FetchedGroup(group_id=group.group_id, topics=[], error_code=error.code)
    if by_id:
        fetched.topics = (
            _with_ids(image, fetched.topics)
            if asked is None
            else _with_unknown(asked, fetched.topics)
        )
    return fetched


def _named(image: MetadataImage, asked: list[FetchTopic]) -> list[FetchTopic]:
    """The topics whose ids are known, with their names."""
    named: list[FetchTopic] = []
    for topic in asked:
        known = image.topics_by_id.get(topic.topic_id)
        if known is not None:
            topic.name = known.name
            named.append(topic)
    return named


def _with_unknown(asked: list[FetchTopic], fetched: list[FetchedTopic]) -> list[FetchedTopic]:
    """What was fetched, in the order of the request, and an error for ids that nobody knows."""
    found = {topic.topic_id: topic for topic in fetched}
    return [
        found.get(topic.topic_id)
        or FetchedTopic(
            topic_id=topic.topic_id,
            partitions=[
                FetchedPartition(
                    partition_index=index,
                    committed_offset=-1,
                    committed_leader_epoch=-1,
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in asked
    ]


def _with_ids(image: MetadataImage, fetched: list[FetchedTopic]) -> list[FetchedTopic]:
    """All of a group's topics that still exist: the others have no id to be told by."""
    kept: list[FetchedTopic] = []
    for topic in fetched:
        known = image.topics_by_name.get(topic.name)
        if known is not None:
            topic.topic_id = known.id
            kept.append(topic)
    return kept


def _single_group_response(
    version: int, group: FetchGroup, fetched: FetchedGroup
) -> OffsetFetchResponse:
    """Before v8; v1 has no place for the group's error but its partitions."""
    error = ErrorCode(fetched.error_code)
    topics = fetched.topics
    if error and version < FETCH_TOP_LEVEL_ERROR_VERSION:
        topics = [
            FetchedTopic(
                name=topic.name,
                partitions=[
                    FetchedPartition(partition_index=index, committed_offset=-1, error_code=error)
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or []
        ]
    return OffsetFetchResponse(
        error_code=error if version >= FETCH_TOP_LEVEL_ERROR_VERSION else ErrorCode.NONE,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


# OffsetDelete


@handles(OffsetDeleteRequest)
async def offset_delete(ctx: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Partitions that do not exist are refused here, the others go to the coordinator."""
    image = ctx.node.image
    asked = request.topics
    request.topics = []
    for topic in asked:
        known = image.topics_by_name.get(topic.name)
        partitions = [
            p for p in topic.partitions if known is not None and p.partition_index in known.partitions
        ]
        if partitions:
            request.topics.append(DeleteTopic(name=topic.name, partitions=partitions))
    try:
        response = await ctx.node.groups.delete_offsets(request)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    codes = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
    response.topics = [
        OffsetDeleteResponse.OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponse.OffsetDeleteResponsePartition(
                    partition_index=p.partition_index,
                    error_code=codes.get(
                        (topic.name, p.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    ),
                )
                for p in topic.partitions
            ],
        )
        for topic in asked
    ]
    return response
