"""The way of transaction markers to the leaders of their partitions.

Each other broker has a queue and at most one request in flight. A subclass carries the requests:
over connections (`marker_sender`), or in the simulation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from barnabas.coordinator.transactions.marker_requests import (
    MarkerQueues,
    QueuedMarkers,
    marker_request,
    outcomes_of,
)
from barnabas.coordinator.transactions.pending_markers import MarkersAnswered, SendMarkers
from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from barnabas.server.coordinators.transactions.marker_writer import MarkerDestination
from barnabas.server.coordinators.transactions.transaction_partition import TransactionPartition

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage

Queued: TypeAlias = QueuedMarkers[TransactionPartition]


class MarkerRouting(ABC):
    """The markers of the transactions that one broker coordinates."""

    def __init__(
        self, broker_id: int, image: "Callable[[], MetadataImage]", local: MarkerDestination
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._local = local
        self._queues: MarkerQueues[TransactionPartition] = MarkerQueues()
        self._busy: set[int] = set()

    def send(self, owner: TransactionPartition, markers: SendMarkers) -> None:
        """Send markers; `owner` gets the outcomes, each as soon as it is known."""
        epoch = owner.leader_epoch
        self._send(QueuedMarkers(owner, epoch, markers, tuple(sorted(markers.partitions))))

    def follow_metadata(self) -> None:
        """Send the markers that waited for a leader."""
        for queued in self._queues.take_unreachable():
            if is_wanted(queued):
                self._send(queued)

    @abstractmethod
    def _is_reachable(self, broker_id: int) -> bool:
        """True when requests can be sent to a broker."""

    @abstractmethod
    def _serve(self, broker_id: int) -> None:
        """Begin to send what is queued for a broker, unless that has begun."""

    def _send(self, queued: Queued) -> None:
        by_leader: dict[int | None, list[TopicPartition]] = {}
        for written in queued.partitions:
            image = self._image().partition(*written)
            by_leader.setdefault(None if image is None else image.leader, []).append(written)
        for leader, there in by_leader.items():
            part = QueuedMarkers(
                queued.owner, queued.coordinator_epoch, queued.markers, tuple(there)
            )
            self._send_to(leader, part)

    def _send_to(self, leader: int | None, part: Queued) -> None:
        if leader is None:  # a deleted partition needs no marker
            self._note(part, -1, dict.fromkeys(part.partitions, ErrorCode.NONE))
        elif leader == self._broker_id:
            self._write_here(part)
        elif self._is_reachable(leader):
            self._queues.add(leader, part)
            self._serve(leader)
        else:
            self._queues.add_unreachable(part)

    def _write_here(self, queued: Queued) -> None:
        def written(response: WriteTxnMarkersResponse) -> None:
            self._note(queued, self._broker_id, outcomes_of(queued, response))

        self._local.write(marker_request([queued]), written)

    def _take(self, broker_id: int) -> list[Queued]:
        """Return the entries of the next request to a broker, none when nothing is queued."""
        while taken := self._queues.take(broker_id):
            if wanted := [queued for queued in taken if is_wanted(queued)]:
                return wanted
        return []

    def _answered(
        self, broker_id: int, entries: Sequence[Queued], response: WriteTxnMarkersResponse
    ) -> None:
        for queued in entries:
            self._note(queued, broker_id, outcomes_of(queued, response))

    def _failed(self, broker_id: int, entries: Sequence[Queued], code: ErrorCode) -> None:
        for queued in entries:
            self._note(queued, broker_id, dict.fromkeys(queued.partitions, code))

    def _note(
        self, queued: Queued, broker_id: int, outcomes: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        """Pass the outcomes at a broker to the coordinator, if it still wants them."""
        if not is_wanted(queued):
            return
        markers = queued.markers
        queued.owner.markers_answered(
            MarkersAnswered(
                markers.transactional_id,
                markers.producer_id,
                markers.producer_epoch,
                dict(outcomes),
            )
        )


def is_wanted(queued: Queued) -> bool:
    """True while the coordinator that sends the markers serves, in the same leader epoch."""
    owner = queued.owner
    return owner.is_loaded and owner.leader_epoch == queued.coordinator_epoch
