"""DeleteRecords: move the start of logs (versions 0-2).

The new start offsets are in the checkpoint before the response, so they survive a restart.
"""

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.server.api.handler_services import DataContext

PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult
TopicResult = DeleteRecordsResponse.DeleteRecordsTopicResult


async def delete_records(
    context: DataContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Delete the records of each partition; each has its own result."""
    response = DeleteRecordsResponse(
        topics=[
            TopicResult(
                name=topic.name,
                partitions=[
                    _delete(context, topic.name, asked.partition_index, asked.offset)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    await context.services.checkpoint_log_starts()
    return response


def _delete(context: DataContext, topic: str, number: int, offset: int) -> PartitionResult:
    try:
        partition = context.services.replicas.partition(topic, number)
        if partition.is_internal:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Cannot delete records of internal topic {topic}",
            )
        low_watermark = partition.delete_records(offset)
    except KafkaError as error:
        return PartitionResult(partition_index=number, low_watermark=-1, error_code=error.code)
    return PartitionResult(partition_index=number, low_watermark=low_watermark)
