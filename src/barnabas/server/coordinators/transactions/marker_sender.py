"""Sending markers to the leaders of a transaction's partitions, on this node and on others.

The coordinator takes the outcome of every marker and sends the failed ones again, so a failure here
is an outcome like any other. Markers of a coordinator that has resigned are dropped: its successor
sends them.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.coordinator.transactions.marker_requests import marker_request
from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from barnabas.server.coordinators.broker_requests import BrokerRequests
from barnabas.server.coordinators.transactions.marker_routing import (
    MarkerRouting,
    Queued,
    is_wanted,
)
from barnabas.server.coordinators.transactions.marker_writer import MarkerDestination

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage

logger = logging.getLogger(__name__)


class MarkerSender(MarkerRouting):
    """The markers of the transactions that this node coordinates."""

    def __init__(
        self,
        broker_id: int,
        image: "Callable[[], MetadataImage]",
        local: MarkerDestination,
        brokers: BrokerRequests,
    ) -> None:
        super().__init__(broker_id, image, local)
        self._brokers = brokers

    def _is_reachable(self, broker_id: int) -> bool:
        return self._brokers.is_reachable(broker_id)

    def _serve(self, broker_id: int) -> None:
        if broker_id not in self._busy and self._brokers.start_soon(self._run, broker_id):
            self._busy.add(broker_id)

    async def _run(self, broker_id: int) -> None:
        """Send what is queued for a broker, one request after the other."""
        try:
            while entries := self._take(broker_id):
                await self._request(broker_id, entries)
        finally:
            self._busy.discard(broker_id)

    async def _request(self, broker_id: int, entries: list[Queued]) -> None:
        try:
            response = await self._brokers.ask(
                broker_id, marker_request(entries), WriteTxnMarkersResponse
            )
        except KafkaError as error:
            self._failed(broker_id, entries, error.code)
        else:
            self._answered(broker_id, entries, response)

    def _note(
        self, queued: Queued, broker_id: int, outcomes: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        failed = {written: code.name for written, code in outcomes.items() if code}
        if failed and is_wanted(queued):
            logger.warning(
                "cannot write transaction markers transactional_id=%s partitions=%s",
                queued.markers.transactional_id,
                failed,
            )
        super()._note(queued, broker_id, outcomes)
