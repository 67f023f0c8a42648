"""OffsetForLeaderEpoch: the end of an epoch; readers find with it where logs diverge (KIP-320).

Versions 2-4.
"""

from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from barnabas.server.api.handler_services import DataContext

EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset
TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult


def offset_for_leader_epoch(
    context: DataContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer each partition on its own; (-1, -1) for an epoch that is unknown."""
    return OffsetForLeaderEpochResponse(
        topics=[
            TopicResult(
                topic=topic.topic,
                partitions=[_answer(context, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    context: DataContext, topic: str, asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        partition = context.services.replicas.partition(
            topic, asked.partition, asked.current_leader_epoch
        )
        epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.code)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
