"""Sending markers to the leaders of a transaction's partitions, on this node and on others.

Each other broker has a queue and at most one request in flight. The coordinator takes the outcome
of every marker and sends the failed ones again, so a failure here is an outcome like any other.
Markers of a coordinator that has resigned are dropped: its successor sends them.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from barnabas.coordinator.transactions.marker_requests import (
    MarkerQueues,
    QueuedMarkers,
    marker_request,
    outcomes_of,
)
from barnabas.coordinator.transactions.pending_markers import MarkersAnswered, SendMarkers
from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from barnabas.server.coordinators.broker_requests import BrokerRequests
from barnabas.server.coordinators.transactions.marker_writer import MarkerDestination
from barnabas.server.coordinators.transactions.transaction_partition import TransactionPartition

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

Queued: TypeAlias = QueuedMarkers[TransactionPartition]


class MarkerSender:
    """The markers of the transactions that this node coordinates."""

    def __init__(
        self,
        broker_id: int,
        image: "Callable[[], MetadataImage]",
        local: MarkerDestination,
        brokers: BrokerRequests,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._local = local
        self._brokers = brokers
        self._queues: MarkerQueues[TransactionPartition] = MarkerQueues()
        self._busy: set[int] = set()

    def send(self, owner: TransactionPartition, markers: SendMarkers) -> None:
        """Send markers; `owner` gets the outcomes, each as soon as it is known."""
        epoch = owner.leader_epoch
        self._send(QueuedMarkers(owner, epoch, markers, tuple(sorted(markers.partitions))))

    def follow_metadata(self) -> None:
        """Send the markers that waited for a leader."""
        for queued in self._queues.take_unreachable():
            if _is_wanted(queued):
                self._send(queued)

    def _send(self, queued: Queued) -> None:
        by_leader: dict[int | None, list[TopicPartition]] = {}
        for written in queued.partitions:
            image = self._image().partition(*written)
            by_leader.setdefault(None if image is None else image.leader, []).append(written)
        for leader, written_there in by_leader.items():
            part = QueuedMarkers(
                queued.owner, queued.coordinator_epoch, queued.markers, tuple(written_there)
            )
            if leader is None:  # a deleted partition needs no marker
                _note_outcomes(part, dict.fromkeys(written_there, ErrorCode.NONE))
            elif leader == self._broker_id:
                self._write_here(part)
            elif self._brokers.is_reachable(leader):
                self._queues.add(leader, part)
                self._serve(leader)
            else:
                self._queues.add_unreachable(part)

    def _write_here(self, queued: Queued) -> None:
        def written(response: WriteTxnMarkersResponse) -> None:
            _note_outcomes(queued, outcomes_of(queued, response))

        self._local.write(marker_request([queued]), written)

    def _serve(self, broker_id: int) -> None:
        if broker_id not in self._busy and self._brokers.start_soon(self._run, broker_id):
            self._busy.add(broker_id)

    async def _run(self, broker_id: int) -> None:
        """Send what is queued for a broker, one request after the other."""
        try:
            while taken := self._queues.take(broker_id):
                wanted = [queued for queued in taken if _is_wanted(queued)]
                if wanted:
                    await self._request(broker_id, wanted)
        finally:
            self._busy.discard(broker_id)

    async def _request(self, broker_id: int, entries: list[Queued]) -> None:
        try:
            response = await self._brokers.ask(
                broker_id, marker_request(entries), WriteTxnMarkersResponse
            )
        except KafkaError as error:
            for queued in entries:
                _note_outcomes(queued, dict.fromkeys(queued.partitions, error.code))
            return
        for queued in entries:
            _note_outcomes(queued, outcomes_of(queued, response))


def _is_wanted(queued: Queued) -> bool:
    """True while the coordinator that sends the markers serves, in the same leader epoch."""
    owner = queued.owner
    return owner.is_loaded and owner.leader_epoch == queued.coordinator_epoch


def _note_outcomes(queued: Queued, outcomes: Mapping[TopicPartition, ErrorCode]) -> None:
    if not _is_wanted(queued):
        return
    markers = queued.markers
    failed = {written: code.name for written, code in outcomes.items() if code}
    if failed:
        logger.warning(
            "markers not written transactional_id=%s partitions=%s",
            markers.transactional_id,
            failed,
        )
    queued.owner.markers_answered(
        MarkersAnswered(
            markers.transactional_id, markers.producer_id, markers.producer_epoch, dict(outcomes)
        )
    )
