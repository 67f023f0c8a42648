"""Allocate blocks of producer ids, as Kafka's `ProducerIdControlManager` (KIP-730)."""

from typing import Final

from barnabas.cluster.controller.directory_changes import registered_broker
from barnabas.cluster.controller.operation_result import ControllerResult
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.records.metadata_records import ProducerIdsRecord

# org.apache.kafka.server.common.ProducerIdsBlock
PRODUCER_ID_BLOCK_SIZE: Final = 1000


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Allocate the next block to a broker. Raises KafkaError when no ids are left."""
    registered_broker(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    if first > (1 << 63) - 1 - PRODUCER_ID_BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are used up")
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(
        producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE
    )
    return ControllerResult([record], response)
