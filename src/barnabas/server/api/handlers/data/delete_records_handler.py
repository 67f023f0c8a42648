"""DeleteRecords: move the start of logs (versions 0-2).

The new start offsets are in the checkpoint before the response, so they survive a restart; the
response waits until the live followers have deleted the records, too.
"""

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.server.api.flows import is_flow
from barnabas.server.api.handler_services import DataContext
from barnabas.server.replication.deletion_wait import (
    NO_LOW_WATERMARK,
    Deletion,
    wait_for_deletions,
)

PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult
TopicResult = DeleteRecordsResponse.DeleteRecordsTopicResult


async def delete_records(
    context: DataContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Delete the records of each partition; each has its own result."""
    response, deletions = begin_deletions(context, request)
    await context.services.checkpoint_log_starts()
    await wait_for_deletions(deletions, request.timeout_ms)
    return response


def begin_deletions(
    context: DataContext, request: DeleteRecordsRequest
) -> tuple[DeleteRecordsResponse, list[Deletion]]:
    """Delete on the leaders; return the response, and the deletions that fill in its results."""
    deletions: list[Deletion] = []
    response = DeleteRecordsResponse(
        topics=[
            TopicResult(
                name=topic.name,
                partitions=[
                    _delete(context, topic.name, asked.partition_index, asked.offset, deletions)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    return response, deletions


def _delete(
    context: DataContext, topic: str, number: int, offset: int, deletions: list[Deletion]
) -> PartitionResult:
    """Delete on the leader, and add what to wait for to `deletions`."""
    result = PartitionResult(partition_index=number, low_watermark=NO_LOW_WATERMARK)
    try:
        partition = context.services.replicas.partition(topic, number)
        if partition.is_internal:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Cannot delete records of internal topic {topic}",
            )
        mirror = partition.mirror
        by_flow = mirror is not None and mirror.is_active and is_flow(context, mirror.flow)
        deleted_to = partition.delete_records(offset, by_flow=by_flow)
    except KafkaError as error:
        result.error_code = error.code
        return result
    deletions.append(Deletion(partition, deleted_to, result))
    return result
