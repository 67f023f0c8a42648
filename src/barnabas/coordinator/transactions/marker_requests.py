"""Markers on their way to other brokers: a queue for each broker, and requests made of it.

Kafka: TransactionMarkerChannelManager. Markers whose partition has no reachable leader wait until
the metadata changes.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

import attrs

from barnabas.coordinator.transactions.pending_markers import SendMarkers
from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

OwnerT = TypeVar("OwnerT")


@attrs.frozen
class QueuedMarkers(Generic[OwnerT]):
    """The markers of one transaction for partitions with one leader.

    `owner` is the coordinator that takes the outcomes, in its leader epoch `coordinator_epoch`.
    """

    owner: OwnerT
    coordinator_epoch: int
    markers: SendMarkers
    partitions: tuple[TopicPartition, ...]


class MarkerQueues(Generic[OwnerT]):
    """The markers that no request carries yet, by broker."""

    def __init__(self) -> None:
        self._queues: dict[int, list[QueuedMarkers[OwnerT]]] = {}
        self._unreachable: list[QueuedMarkers[OwnerT]] = []

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values()) + len(self._unreachable)

    def add(self, broker_id: int, queued: QueuedMarkers[OwnerT]) -> None:
        """Queue markers for a broker."""
        self._queues.setdefault(broker_id, []).append(queued)

    def take(self, broker_id: int) -> list[QueuedMarkers[OwnerT]]:
        """Remove and return the markers for one request.

        The response has its results by producer id, so a request has each producer id once.
        """
        taken: dict[int, QueuedMarkers[OwnerT]] = {}
        left: list[QueuedMarkers[OwnerT]] = []
        for queued in self._queues.pop(broker_id, []):
            if queued.markers.producer_id in taken:
                left.append(queued)
            else:
                taken[queued.markers.producer_id] = queued
        if left:
            self._queues[broker_id] = left
        return list(taken.values())

    def add_unreachable(self, queued: QueuedMarkers[OwnerT]) -> None:
        """Keep markers whose partitions have no reachable leader."""
        self._unreachable.append(queued)

    def take_unreachable(self) -> list[QueuedMarkers[OwnerT]]:
        """Remove and return the markers without a reachable leader."""
        taken, self._unreachable = self._unreachable, []
        return taken


def marker_request(entries: Iterable[QueuedMarkers[OwnerT]]) -> WriteTxnMarkersRequest:
    """Return the request for several transactions' markers."""
    return WriteTxnMarkersRequest(markers=[_marker(entry) for entry in entries])


def _marker(entry: QueuedMarkers[OwnerT]) -> WriteTxnMarkersRequest.WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in entry.partitions:
        by_topic.setdefault(topic, []).append(partition)
    markers = entry.markers
    return WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.commit,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic.items()
        ],
        coordinator_epoch=entry.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )


def outcomes_of(
    entry: QueuedMarkers[OwnerT], response: WriteTxnMarkersResponse
) -> dict[TopicPartition, ErrorCode]:
    """Return the outcome of each marker; one that the response lacks is UNKNOWN_SERVER_ERROR."""
    outcomes = dict.fromkeys(entry.partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
    for result in response.markers:
        if result.producer_id == entry.markers.producer_id:
            for topic in result.topics:
                for answer in topic.partitions:
                    outcomes[topic.name, answer.partition_index] = error_code(answer.error_code)
    return outcomes
