"""Sending transaction markers in the simulation, as `MarkerSender` does over connections."""

from collections.abc import Callable, Mapping

from barnabas.cluster.metadata.image import MetadataImage
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
from barnabas.server.coordinators.transactions.marker_writer import LocalMarkers
from barnabas.server.coordinators.transactions.transaction_partition import TransactionPartition
from barnabas.testing.simulation.network import Failure, Network
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.world import Process

Queued = QueuedMarkers[TransactionPartition]

_TIMEOUT_MS = 10_000


class MarkerDriver:
    """The markers of the transactions that one broker coordinates."""

    def __init__(
        self,
        process: Process,
        network: Network,
        image: Callable[[], MetadataImage],
        local: LocalMarkers,
    ) -> None:
        self._process = process
        self._network = network
        self._image = image
        self._local = local
        self._queues: MarkerQueues[TransactionPartition] = MarkerQueues()
        self._busy: set[int] = set()
        self._failed_at: dict[tuple[int, int, TopicPartition], int] = {}

    @property
    def waiting(self) -> int:
        """The number of queued markers."""
        return len(self._queues)

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
        for leader, there in by_leader.items():
            part = QueuedMarkers(
                queued.owner, queued.coordinator_epoch, queued.markers, tuple(there)
            )
            self._send_to(leader, part)

    def _send_to(self, leader: int | None, part: Queued) -> None:
        if leader is None:  # a deleted partition needs no marker
            self._note(part, -1, dict.fromkeys(part.partitions, ErrorCode.NONE))
        elif leader == self._process.node_id:

            def written(response: WriteTxnMarkersResponse) -> None:
                self._note(part, self._process.node_id, outcomes_of(part, response))

            self._local.write(marker_request([part]), written)
        elif self._is_reachable(leader):
            self._queues.add(leader, part)
            self._serve(leader)
        else:
            self._queues.add_unreachable(part)

    def _is_reachable(self, broker_id: int) -> bool:
        broker = self._image().brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def _serve(self, broker_id: int) -> None:
        """Send what is queued for a broker, with one request in flight."""
        if broker_id in self._busy:
            return
        entries: list[Queued] = []
        while not entries:
            taken = self._queues.take(broker_id)
            if not taken:
                return
            entries = [queued for queued in taken if _is_wanted(queued)]
        self._busy.add(broker_id)

        def answered(response: WriteTxnMarkersResponse) -> None:
            self._busy.discard(broker_id)
            for queued in entries:
                self._note(queued, broker_id, outcomes_of(queued, response))
            self._serve(broker_id)

        def failed(_: Failure) -> None:
            self._busy.discard(broker_id)
            for queued in entries:
                outcomes = dict.fromkeys(queued.partitions, ErrorCode.NETWORK_EXCEPTION)
                self._note(queued, broker_id, outcomes)
            self._serve(broker_id)

        self._network.ask(
            self._process,
            broker_id,
            "broker",
            marker_request(entries),
            answered,
            failed,
            purpose="markers",
            timeout_ms=_TIMEOUT_MS,
        )

    def _note(
        self, queued: Queued, broker_id: int, outcomes: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        self._count_retries(queued, broker_id, outcomes)
        if not _is_wanted(queued):
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

    def _count_retries(
        self, queued: Queued, broker_id: int, outcomes: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        markers = queued.markers
        for written, code in outcomes.items():
            key = markers.producer_id, markers.producer_epoch, written
            if code:
                self._failed_at[key] = broker_id
            elif self._failed_at.pop(key, broker_id) != broker_id:
                self._process.world.rare.reached(RareState.MARKER_RETRIED_ELSEWHERE)


def _is_wanted(queued: Queued) -> bool:
    """True while the coordinator that sends the markers serves, in the same leader epoch."""
    owner = queued.owner
    return owner.is_loaded and owner.leader_epoch == queued.coordinator_epoch
