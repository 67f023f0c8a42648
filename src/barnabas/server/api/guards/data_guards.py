"""Guards of Produce, ListOffsets, OffsetForLeaderEpoch and DeleteRecords.

Fetch is checked by its handler, partition by partition (`handlers.data.fetch_access`): a request of
a session does not name the partitions that it reads.
"""

from typing import Any

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.protocol.batches.batch_header import attributes_of
from barnabas.protocol.batches.batch_layout import HEADER_SIZE, TRANSACTIONAL
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.server.api.flows import is_flow_of
from barnabas.server.api.guards.guarded_answers import Answer, completed
from barnabas.server.api.handler_services import DataContext
from barnabas.server.api.permissions import may, may_on_cluster, parted, permitted
from barnabas.server.api.registry import Handler

_TOPIC_IDS_VERSION = 13
_NO_OFFSET = -1
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def produce(ctx: DataContext, request: ProduceRequest, handler: Handler) -> Answer:
    """WRITE on the transactional id, and on each topic.

    The flow of a mirror sends other producers' transactions, without a transactional id.
    """
    by_id = ctx.version >= _TOPIC_IDS_VERSION
    named = [(topic, _name_of(ctx, topic)) for topic in request.topic_data]
    if _has_own_transactions(ctx, named) and not _may_write_transactions(ctx, request):
        if request.acks == 0:
            ctx.connection.close()
            return None
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ProduceResponse(
            responses=[_unwritten(topic, code, by_id=by_id) for topic in request.topic_data]
        )
    allowed: set[str | None] = {None} | permitted(
        ctx, AclOperation.WRITE, ResourceType.TOPIC, [name for _, name in named if name is not None]
    )
    denied = [topic for topic, name in named if name not in allowed]
    if not denied:
        return handler(ctx, request)
    request.topic_data = [topic for topic, name in named if name in allowed]
    if request.acks == 0:
        ctx.connection.close()  # the error of a request without a response
    answers = [_unwritten(topic, _DENIED, by_id=by_id) for topic in denied]
    return completed(handler(ctx, request), lambda response: response.responses.extend(answers))


def _name_of(ctx: DataContext, topic: ProduceRequest.TopicProduceData) -> str | None:
    """Return the topic's name; None for an unknown id, which the handler answers."""
    if ctx.version < _TOPIC_IDS_VERSION:
        return topic.name
    found = ctx.services.replicas.image.topics_by_id.get(topic.topic_id)
    return None if found is None else found.name


def _has_own_transactions(
    ctx: DataContext, named: list[tuple[ProduceRequest.TopicProduceData, str | None]]
) -> bool:
    image = ctx.services.replicas.image
    return any(
        _has_transactional_records(topic) and not is_flow_of(ctx, image, name)
        for topic, name in named
    )


def _has_transactional_records(topic: ProduceRequest.TopicProduceData) -> bool:
    for data in topic.partition_data:
        records: Any = data.records
        if len(records or b"") >= HEADER_SIZE and attributes_of(records) & TRANSACTIONAL:
            return True
    return False


def _may_write_transactions(ctx: DataContext, request: ProduceRequest) -> bool:
    transactional_id = request.transactional_id
    return transactional_id is not None and may(
        ctx, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _unwritten(
    topic: ProduceRequest.TopicProduceData, code: ErrorCode, *, by_id: bool
) -> ProduceResponse.TopicProduceResponse:
    answers = [
        ProduceResponse.PartitionProduceResponse(
            index=data.index, error_code=code, base_offset=_NO_OFFSET
        )
        for data in topic.partition_data
    ]
    answer = ProduceResponse.TopicProduceResponse(partition_responses=answers)
    if by_id:
        answer.topic_id = topic.topic_id
    else:
        answer.name = topic.name
    return answer


def list_offsets(ctx: DataContext, request: ListOffsetsRequest, handler: Handler) -> Answer:
    """DESCRIBE on each topic."""
    request.topics, denied = parted(
        ctx, AclOperation.DESCRIBE, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )
    answers = [
        ListOffsetsResponse.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=asked.partition_index, error_code=_DENIED
                )
                for asked in topic.partitions
            ],
        )
        for topic in denied
    ]
    return completed(handler(ctx, request), lambda response: response.topics.extend(answers))


def offset_for_leader_epoch(
    ctx: DataContext, request: OffsetForLeaderEpochRequest, handler: Handler
) -> Answer:
    """CLUSTER_ACTION, which brokers have, or DESCRIBE on each topic."""
    if may_on_cluster(ctx, AclOperation.CLUSTER_ACTION, log_denied=False):
        return handler(ctx, request)
    request.topics, denied = parted(
        ctx, AclOperation.DESCRIBE, ResourceType.TOPIC, request.topics, lambda topic: topic.topic
    )
    answers = [
        OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                OffsetForLeaderEpochResponse.EpochEndOffset(
                    partition=asked.partition, error_code=_DENIED
                )
                for asked in topic.partitions
            ],
        )
        for topic in denied
    ]
    return completed(handler(ctx, request), lambda response: response.topics.extend(answers))


def delete_records(ctx: DataContext, request: DeleteRecordsRequest, handler: Handler) -> Answer:
    """DELETE on each topic."""
    request.topics, denied = parted(
        ctx, AclOperation.DELETE, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )
    answers = [
        DeleteRecordsResponse.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsResponse.DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index,
                    low_watermark=_NO_OFFSET,
                    error_code=_DENIED,
                )
                for asked in topic.partitions
            ],
        )
        for topic in denied
    ]
    return completed(handler(ctx, request), lambda response: response.topics.extend(answers))
