"""The transaction coordinator of a node (Kafka's TransactionCoordinator, around its shards)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas.cluster.metadata.feature_levels import TRANSACTION_VERSION, served
from barnabas.coordinator.transactions.transaction_settings import TransactionSettings
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.coordinators.coordinator_service import CoordinatorService
from barnabas.server.coordinators.internal_topics import TRANSACTION_TOPIC
from barnabas.server.coordinators.transactions.marker_writer import LocalMarkers, MarkerDestination
from barnabas.server.coordinators.transactions.producer_ids import ProducerIds
from barnabas.server.coordinators.transactions.verification_guards import Guards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.config.node_config import NodeConfig
    from barnabas.coordinator.core.coordinator_output import Output, Token
    from barnabas.coordinator.transactions.pending_markers import SendMarkers
    from barnabas.coordinator.transactions.transaction import TopicPartition
    from barnabas.coordinator.transactions.transaction_listing import Filters
    from barnabas.coordinator.transactions.transaction_shard import TransactionShard
    from barnabas.protocol.messages.describe_transactions import DescribeTransactionsResponse
    from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
    from barnabas.protocol.messages.init_producer_id import (
        InitProducerIdRequest,
        InitProducerIdResponse,
    )
    from barnabas.protocol.messages.list_transactions import ListTransactionsResponse
    from barnabas.protocol.messages.write_txn_markers import (
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )
    from barnabas.server.coordinators.transactions.transaction_partition import TransactionPartition
    from barnabas.server.node.node import Node

    TransactionState: TypeAlias = DescribeTransactionsResponse.TransactionState
    ListedTransaction: TypeAlias = ListTransactionsResponse.TransactionState

    # An operation that may need a new producer id: shard, id if there is one, time in ms, token.
    _DecideWithId = Callable[[TransactionShard, int | None, int, Token], Output]

logger = logging.getLogger(__name__)


def transaction_settings(config: NodeConfig) -> TransactionSettings:
    """The coordinator's settings out of the node's properties."""
    get = config.get_int
    return TransactionSettings(
        max_timeout_ms=get("transaction.max.timeout.ms"),
        expiration_ms=get("transactional.id.expiration.ms"),
        expiration_interval_ms=get("transaction.remove.expired.transaction.cleanup.interval.ms"),
        abort_interval_ms=get("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
    )


class TransactionCoordinator(CoordinatorService["TransactionPartition"]):
    """Coordinates the transactional ids whose partitions of the topic this node leads."""

    TOPIC = TRANSACTION_TOPIC

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.producer_ids = ProducerIds(node)
        self.guards = Guards()
        self.local_markers = LocalMarkers(node)
        self._settings = transaction_settings(node.config)

    def new_partition(self, index: int) -> TransactionPartition:
        """A partition of transactional ids, not loaded yet."""
        # As of groups: what a start does not need is imported when it is.
        from barnabas.coordinator.transactions.transaction_shard import TransactionShard
        from barnabas.server.coordinators.transactions.transaction_partition import (
            TransactionPartition,
        )

        node = self.node
        return TransactionPartition(
            node.replicas,
            index,
            TransactionShard(self._settings, self.transaction_version),
            now_ms=self.now_ms,
            stamp_ms=node.now_ms,
            commit_timeout_ms=node.config.get_int("request.timeout.ms"),
            begin_sync=self.begin_sync,
            go_on=self.go_on,
            send_markers=self._send_markers,
        )

    def transaction_version(self) -> int:
        """The finalized level of transaction.version, as far as it is served."""
        return served(self.node.image.features).get(TRANSACTION_VERSION, 0)

    # Markers

    def _destination(self, broker_id: int) -> MarkerDestination | None:
        """The broker's way to write markers, None while there is none."""
        return self.local_markers if broker_id == self.node.node_id else None

    def _send_markers(self, led: TransactionPartition, markers: SendMarkers) -> None:
        """Write markers at the leaders of their partitions, and tell the shard what became."""
        from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

        by_broker: dict[int, list[TopicPartition]] = {}
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for partition in sorted(markers.partitions):
            image = self.node.image.partition(*partition)
            if image is None:  # deleted: nothing is left to be ended
                outcomes[partition] = ErrorCode.NONE
            else:
                by_broker.setdefault(image.leader, []).append(partition)
        for broker_id, partitions in by_broker.items():
            destination = self._destination(broker_id)
            if destination is None:
                outcomes |= dict.fromkeys(partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                request = WriteTxnMarkersRequest(markers=[_marker(markers, partitions, led.epoch)])
                destination.write(request, lambda answer: self._answered(led, markers, answer))
        if outcomes:
            self._tell(led, markers, outcomes)

    def _answered(
        self, led: TransactionPartition, markers: SendMarkers, answer: WriteTxnMarkersResponse
    ) -> None:
        (result,) = answer.markers
        self._tell(
            led,
            markers,
            {
                (topic.name, partition.partition_index): ErrorCode(partition.error_code)
                for topic in result.topics
                for partition in topic.partitions
            },
        )

    def _tell(
        self,
        led: TransactionPartition,
        markers: SendMarkers,
        outcomes: dict[TopicPartition, ErrorCode],
    ) -> None:
        from barnabas.coordinator.transactions.pending_markers import MarkersAnswered

        failed = {partition: code.name for partition, code in outcomes.items() if code}
        if failed:
            logger.warning(
                "markers not written transactional_id=%s partitions=%s",
                markers.transactional_id,
                failed,
            )
        led.markers_answered(
            MarkersAnswered(
                markers.transactional_id, markers.producer_id, markers.producer_epoch, outcomes
            )
        )
        self.note_wakeup(led)

    # Requests

    async def _decide_with_id(self, key: str, decide: _DecideWithId) -> Any:
        """Have the shard decide; a new producer id is fetched only if it turns out needed."""
        from barnabas.coordinator.transactions.transaction_shard import ProducerIdNeededError

        try:
            return await self.decide(
                key, lambda shard, now_ms, token: decide(shard, None, now_ms, token)
            )
        except ProducerIdNeededError:
            fresh = await self.producer_ids.next()
            return await self.decide(
                key, lambda shard, now_ms, token: decide(shard, fresh, now_ms, token)
            )

    async def init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """A transactional producer starts, or goes on after an error."""
        return await self._decide_with_id(
            request.transactional_id or "",
            lambda shard, fresh, now_ms, token: shard.init_producer_id(
                request, fresh, now_ms, token
            ),
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        client_version: int,
    ) -> None:
        """Partitions become part of a transaction."""
        added = list(partitions)
        await self.decide(
            transactional_id,
            lambda shard, now_ms, token: shard.add_partitions(
                transactional_id, producer_id, producer_epoch, added, client_version, now_ms, token
            ),
        )

    async def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether partitions are part of a transaction."""
        asked = list(partitions)
        return await self.decide(
            transactional_id,
            lambda shard, _now_ms, token: shard.verify_partitions(
                transactional_id, producer_id, producer_epoch, asked, token
            ),
        )

    async def end_transaction(self, request: EndTxnRequest, client_version: int) -> EndTxnResponse:
        """A producer commits or aborts."""
        return await self._decide_with_id(
            request.transactional_id,
            lambda shard, fresh, now_ms, token: shard.end_transaction(
                request, client_version, fresh, now_ms, token
            ),
        )

    async def describe(self, transactional_id: str) -> TransactionState:
        """One transactional id."""
        return await self.decide(
            transactional_id,
            lambda shard, _now_ms, token: shard.describe(transactional_id, token),
        )

    async def list_transactions(self, filters: Filters) -> list[ListedTransaction]:
        """Those of this node; COORDINATOR_LOAD_IN_PROGRESS while some are not known yet."""
        found: list[ListedTransaction] = []
        for led in list(self.led.values()):
            if not led.is_loaded:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "still loading")
            found += await self.decide_at(
                led, lambda shard, now_ms, token: shard.list_transactions(filters, now_ms, token)
            )
        return found


def _marker(
    markers: SendMarkers, partitions: list[TopicPartition], epoch: int
) -> WriteTxnMarkersRequest.WritableTxnMarker:
    from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.commit,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic.items()
        ],
        coordinator_epoch=epoch,
        transaction_version=markers.transaction_version,
    )
