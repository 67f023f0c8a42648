"""Verification of a transactional Produce request before the append (KIP-890)."""

from typing import TYPE_CHECKING, Any

from barnabas.protocol.batches.batch_header import attributes_of, producer_of
from barnabas.protocol.batches.batch_layout import HEADER_SIZE, TRANSACTIONAL
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.server.api.handler_services import DataContext, DataServices
from barnabas.server.coordinators.transactions.transaction_verification import (
    Admission,
    Support,
)

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition, ReplicaManager

_TOPIC_IDS_VERSION = 13
_ABORTABLE_VERSION = 11
_ADDS_VERSION = 12


def needed_admission(
    context: DataContext, request: ProduceRequest, transactional_id: str
) -> Admission | None:
    """Return the verification by the coordinator that the request needs; None without one.

    Raises INVALID_PRODUCER_ID_MAPPING when the batches have more than one producer.
    """
    version, services = context.version, context.services
    support = Support.DEFAULT
    if version >= _ABORTABLE_VERSION:
        support = Support.ADDS if version >= _ADDS_VERSION else Support.ABORTABLE
    producers: set[tuple[int, int]] = set()
    unknown: list[tuple[str, int]] = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            records: Any = data.records
            if len(records or b"") < HEADER_SIZE or not attributes_of(records) & TRANSACTIONAL:
                continue
            producer_id, epoch, _ = producer_of(records)
            producers.add((producer_id, epoch))
            partition = _found(
                services.replicas, topic, data.index, by_id=version >= _TOPIC_IDS_VERSION
            )
            if partition is None or partition.is_mirror:
                continue  # its answer is an error, and the transaction does not include it
            if _needs_verification(partition, producer_id, epoch):
                unknown.append((partition.topic, data.index))
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    if not unknown or (support is not Support.ADDS and not _verifies(services)):
        return None
    ((producer_id, epoch),) = producers
    return services.admission(support, transactional_id, producer_id, epoch, unknown)


def _needs_verification(partition: "Partition", producer_id: int, epoch: int) -> bool:
    """True for a first write; one of an old epoch is refused without the coordinator."""
    producers = partition.log.producers
    entry = producers.find(producer_id)
    if entry is not None and epoch < entry.epoch:
        return False
    return not producers.is_in_transaction(producer_id, epoch)


def _verifies(services: DataServices) -> bool:
    return services.settings.current.get("transaction.partition.verification.enable")


def _found(
    replicas: "ReplicaManager", topic: ProduceRequest.TopicProduceData, number: int, *, by_id: bool
) -> "Partition | None":
    try:
        if by_id:
            return replicas.partition_by_id(topic.topic_id, number)
        return replicas.partition(topic.name, number)
    except KafkaError:
        return None  # its answer has the error


def check_transactional(
    context: DataContext,
    request: ProduceRequest,
    partition: "Partition",
    records: memoryview,
    admission: Admission | None,
) -> None:
    """Raise KafkaError unless the producer's transaction includes the partition."""
    if request.transactional_id is None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactional records need a transactional id",
        )
    producer_id, epoch, sequence = producer_of(records)
    producers = partition.log.producers
    if producers.is_in_transaction(producer_id, epoch):
        return
    # Before the checks below: of all their errors, its error alone ends only the transaction.
    producers.check_epoch(producer_id, epoch)
    if admission is None:
        if context.version < _ADDS_VERSION and not _verifies(context.services):
            return
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
        )
    admission.check_write((partition.topic, partition.partition))
    if sequence and admission.support is Support.ADDS and producers.find(producer_id) is None:
        # An earlier batch was lost, perhaps with a transaction that ended (KAFKA-16308).
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Invalid sequence number for producer {producer_id}: {sequence}, as the producer "
            "has no state here",
        )
