"""Producers of partitions: DescribeProducers v0, WriteTxnMarkers v1-2.

Together they find and end a transaction that its coordinator does not know (KIP-664).
"""

from barnabas.cluster.metadata.topic_names import refusal
from barnabas.log.segment.producer_state import ProducerEntry
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.server.api.handler_services import TransactionsContext
from barnabas.server.coordinators.transactions.marker_writer import write_and_wait

PartitionResponse = DescribeProducersResponse.PartitionResponse


async def write_txn_markers(
    context: TransactionsContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """End transactions in partitions, on behalf of their coordinator or of an administrator."""
    return await write_and_wait(context.services.transactions.local_markers, request)


def describe_producers(
    context: TransactionsContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Return the producers that each partition knows, also those of which this is a follower."""
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[
                    _described(context, topic.name, number) for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _described(context: TransactionsContext, topic: str, number: int) -> PartitionResponse:
    reason = refusal(topic)
    if reason is not None:
        return PartitionResponse(
            partition_index=number,
            error_code=ErrorCode.INVALID_TOPIC_EXCEPTION,
            error_message=reason,
        )
    try:
        producers = context.services.replicas.replica(topic, number).log.producers
    except KafkaError as error:
        return PartitionResponse(partition_index=number, error_code=error.code)
    return PartitionResponse(
        partition_index=number,
        active_producers=[_state(entry) for entry in producers.entries()],
    )


def _state(entry: ProducerEntry) -> DescribeProducersResponse.ProducerState:
    return DescribeProducersResponse.ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )
