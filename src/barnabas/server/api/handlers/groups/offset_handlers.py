"""Committed offsets: OffsetCommit v2-10, OffsetFetch v1-10, OffsetDelete v0.

Since v10 commits and fetches name topics by id. The coordinator uses names, with the id at the time
of the commit. OffsetFetch has one group before v8, and many since.
"""

from typing import TypeAlias

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.groups.committed_offsets import FetchedGroup, FetchGroup
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.server.api.handler_services import GroupsContext

CommitTopic: TypeAlias = OffsetCommitRequest.OffsetCommitRequestTopic
CommitPartition: TypeAlias = OffsetCommitRequest.OffsetCommitRequestPartition
CommittedTopic: TypeAlias = OffsetCommitResponse.OffsetCommitResponseTopic
FetchTopic: TypeAlias = OffsetFetchRequest.OffsetFetchRequestTopics
FetchedTopic: TypeAlias = OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartition: TypeAlias = OffsetFetchResponse.OffsetFetchResponsePartitions
DeletedTopic: TypeAlias = OffsetDeleteResponse.OffsetDeleteResponseTopic
DeleteTopic: TypeAlias = OffsetDeleteRequest.OffsetDeleteRequestTopic

TOPIC_ID_VERSION = 10
BATCHED_FETCH_VERSION = 8
FETCH_TOP_LEVEL_ERROR_VERSION = 2


# OffsetCommit


async def offset_commit(ctx: GroupsContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commit offsets; partitions that do not exist are refused here.

    As with Kafka the refused partitions come first in the response.
    """
    answers: list[CommittedTopic] = []
    accepted: list[CommitTopic] = []
    for topic in request.topics:
        _split_known(ctx.services.image(), ctx.version, topic, accepted, answers)
    if not accepted:
        return OffsetCommitResponse(topics=answers)
    request.topics = accepted
    try:
        response = await ctx.services.groups.commit_offsets(request, ctx.version)
        decided = response.topics
    except KafkaError as error:
        decided = [_answer(topic, topic.partitions, error.code) for topic in accepted]
    for topic in decided:
        refused = next((answer for answer in answers if _same(answer, topic)), None)
        if refused is None:
            answers.append(topic)
        else:
            refused.partitions += topic.partitions
    return OffsetCommitResponse(topics=answers)


def _split_known(
    image: MetadataImage,
    version: int,
    topic: CommitTopic,
    accepted: list[CommitTopic],
    refused: list[CommittedTopic],
) -> None:
    """Split a topic into partitions that exist, with both name and id, and refused ones."""
    if version >= TOPIC_ID_VERSION:
        known = image.topics_by_id.get(topic.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known = image.topics_by_name.get(topic.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if known is None:
        refused.append(_answer(topic, topic.partitions, missing))
        return
    topic.name, topic.topic_id = known.name, known.id
    there = [p for p in topic.partitions if p.partition_index in known.partitions]
    not_there = [p for p in topic.partitions if p.partition_index not in known.partitions]
    if there:
        accepted.append(CommitTopic(name=known.name, topic_id=known.id, partitions=there))
    if not_there:
        refused.append(_answer(topic, not_there, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def _answer(
    topic: CommitTopic, partitions: list[CommitPartition], code: ErrorCode
) -> CommittedTopic:
    return CommittedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponse.OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=code
            )
            for partition in partitions
        ],
    )


def _same(one: CommittedTopic, other: CommittedTopic) -> bool:
    return (one.name, one.topic_id) == (other.name, other.topic_id)


# OffsetFetch


async def offset_fetch(ctx: GroupsContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Return each group's offsets, or its error."""
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
    return single_group_response(ctx.version, group, fetched)


async def _fetch_group(
    ctx: GroupsContext, group: FetchGroup, *, require_stable: bool
) -> FetchedGroup:
    image = ctx.services.image()
    by_id = ctx.version >= TOPIC_ID_VERSION
    asked = group.topics
    if by_id and asked is not None:
        group.topics = _named(image, asked)
    try:
        fetched = await ctx.services.groups.fetch_offsets(group, require_stable=require_stable)
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
    """Return the topics whose ids are known, with their names."""
    named: list[FetchTopic] = []
    for topic in asked:
        known = image.topics_by_id.get(topic.topic_id)
        if known is not None:
            topic.name = known.name
            named.append(topic)
    return named


def _with_unknown(asked: list[FetchTopic], fetched: list[FetchedTopic]) -> list[FetchedTopic]:
    """Return the fetched topics, and after them an error for each unknown id, as in `KafkaApis`."""
    found = {topic.topic_id for topic in fetched}
    return fetched + [
        FetchedTopic(
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
        if topic.topic_id not in found
    ]


def _with_ids(image: MetadataImage, fetched: list[FetchedTopic]) -> list[FetchedTopic]:
    """Return a group's topics that still exist: deleted topics have no id."""
    kept: list[FetchedTopic] = []
    for topic in fetched:
        known = image.topics_by_name.get(topic.name)
        if known is not None:
            topic.topic_id = known.id
            kept.append(topic)
    return kept


def single_group_response(
    version: int, group: FetchGroup, fetched: FetchedGroup
) -> OffsetFetchResponse:
    """Return the response before v8; v1 has error codes for partitions only."""
    error = error_code(fetched.error_code)
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


async def offset_delete(ctx: GroupsContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete offsets; partitions that do not exist are refused here."""
    answers: dict[str, DeletedTopic] = {}
    accepted: list[DeleteTopic] = []
    for topic in request.topics:
        known = ctx.services.image().topics_by_name.get(topic.name)
        existing = frozenset[int]() if known is None else known.partitions.keys()
        there = [p for p in topic.partitions if p.partition_index in existing]
        if there:
            accepted.append(DeleteTopic(name=topic.name, partitions=there))
        if len(there) < len(topic.partitions):
            answers[topic.name] = DeletedTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                    for partition in topic.partitions
                    if partition.partition_index not in existing
                ],
            )
    request.topics = accepted
    try:
        response = await ctx.services.groups.delete_offsets(request)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    for topic in response.topics:
        answer = answers.setdefault(topic.name, DeletedTopic(name=topic.name))
        answer.partitions = [*answer.partitions, *topic.partitions]
    return OffsetDeleteResponse(topics=list(answers.values()))
