"""Sending transaction markers in the simulation, as `MarkerSender` does over connections."""

from collections.abc import Callable, Mapping

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.transactions.marker_requests import marker_request
from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from barnabas.server.coordinators.transactions.marker_routing import MarkerRouting, Queued
from barnabas.server.coordinators.transactions.marker_writer import LocalMarkers
from barnabas.testing.simulation.network import Failure, Network
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.world import Process

_TIMEOUT_MS = 10_000


class MarkerDriver(MarkerRouting):
    """The markers of the transactions that one broker coordinates."""

    def __init__(
        self,
        process: Process,
        network: Network,
        image: Callable[[], MetadataImage],
        local: LocalMarkers,
    ) -> None:
        super().__init__(process.node_id, image, local)
        self._process = process
        self._network = network
        self._failed_at: dict[tuple[int, int, TopicPartition], int] = {}

    @property
    def waiting(self) -> int:
        """The number of queued markers."""
        return len(self._queues)

    def _is_reachable(self, broker_id: int) -> bool:
        broker = self._image().brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def _serve(self, broker_id: int) -> None:
        """Send what is queued for a broker, with one request in flight."""
        if broker_id in self._busy:
            return
        entries = self._take(broker_id)
        if not entries:
            return
        self._busy.add(broker_id)

        def answered(response: WriteTxnMarkersResponse) -> None:
            self._busy.discard(broker_id)
            self._answered(broker_id, entries, response)
            self._serve(broker_id)

        def failed(_: Failure) -> None:
            self._busy.discard(broker_id)
            self._failed(broker_id, entries, ErrorCode.NETWORK_EXCEPTION)
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
        markers = queued.markers
        for written, code in outcomes.items():
            key = markers.producer_id, markers.producer_epoch, written
            if code:
                self._failed_at[key] = broker_id
            elif self._failed_at.pop(key, broker_id) != broker_id:
                self._process.world.rare.reached(RareState.MARKER_RETRIED_ELSEWHERE)
        super()._note(queued, broker_id, outcomes)
