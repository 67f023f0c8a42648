"""The transaction coordinator of a node (Kafka's TransactionCoordinator, without the shards)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas.cluster.metadata.feature_levels import TRANSACTION_VERSION, served
from barnabas.coordinator.transactions.transaction_settings import TransactionSettings
from barnabas.protocol.errors import ErrorCode
from barnabas.server.coordinators.coordinator_service import CoordinatorService
from barnabas.server.coordinators.internal_topics import TRANSACTION_TOPIC
from barnabas.server.coordinators.transactions.marker_writer import LocalMarkers, MarkerDestination
from barnabas.server.coordinators.transactions.verification_guards import Guards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.cluster.replication import ReplicaManager
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
    from barnabas.server.coordinators.group_service import GroupCoordinator
    from barnabas.server.coordinators.transactions.producer_ids import ProducerIds
    from barnabas.server.coordinators.transactions.transaction_partition import TransactionPartition
    from barnabas.server.quorum.metadata_publisher import MetadataPublisher
    from barnabas.server.replication.commit_wait import CommitWaits

    TransactionState: TypeAlias = DescribeTransactionsResponse.TransactionState
    ListedTransaction: TypeAlias = ListTransactionsResponse.TransactionState

    # An operation that may need a new producer id: shard, id or None, time in ms, token.
    _OperationWithId = Callable[[TransactionShard, int | None, int, Token], Output]

logger = logging.getLogger(__name__)


def transaction_settings(config: NodeConfig) -> TransactionSettings:
    """Return the coordinator's settings from the node's properties."""
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

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataPublisher,
        config: Callable[[], NodeConfig],
        commits: CommitWaits,
        wall_ms: Callable[[], int],
        *,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
    ) -> None:
        super().__init__(replicas, metadata, config, commits, wall_ms)
        self.producer_ids = producer_ids
        self.guards = Guards()
        self._timeout_ms = config().get_int("request.timeout.ms")
        self.local_markers = LocalMarkers(
            replicas, groups, self.guards, commits, wall_ms, timeout_ms=self._timeout_ms
        )
        self._settings = transaction_settings(config())

    def new_partition(self, index: int, leader_epoch: int) -> TransactionPartition:
        """Return a partition of transactional ids that is not loaded yet."""
        from barnabas.coordinator.transactions.transaction_shard import TransactionShard
        from barnabas.server.coordinators.transactions.transaction_partition import (
            TransactionPartition,
        )

        return TransactionPartition(
            self._context,
            index,
            leader_epoch,
            TransactionShard(self._settings, self.transaction_version),
            commit_timeout_ms=self._timeout_ms,
            send_markers=self._send_markers,
        )

    def transaction_version(self) -> int:
        """Return the finalized level of transaction.version, as far as it is served."""
        return served(self._metadata.image.features).get(TRANSACTION_VERSION, 0)

    # Markers

    def _destination(self, broker_id: int) -> MarkerDestination | None:
        """Return the way to have a broker write markers, None while there is none."""
        return self.local_markers if broker_id == self._replicas.broker_id else None

    def _send_markers(self, partition: TransactionPartition, markers: SendMarkers) -> None:
        """Write markers at the leaders of their partitions; the shard decides on the outcomes."""
        from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

        by_broker: dict[int, list[TopicPartition]] = {}
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for written in sorted(markers.partitions):
            image = self._metadata.image.partition(*written)
            if image is None:  # a deleted partition needs no marker
                outcomes[written] = ErrorCode.NONE
            else:
                by_broker.setdefault(image.leader, []).append(written)
        for broker_id, written_there in by_broker.items():
            destination = self._destination(broker_id)
            if destination is None:
                outcomes |= dict.fromkeys(written_there, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                marker = _marker(markers, written_there, partition.leader_epoch)
                destination.write(
                    WriteTxnMarkersRequest(markers=[marker]),
                    lambda answer: self._markers_written(partition, markers, answer),
                )
        if outcomes:
            _note_outcomes(partition, markers, outcomes)

    def _markers_written(
        self,
        partition: TransactionPartition,
        markers: SendMarkers,
        answer: WriteTxnMarkersResponse,
    ) -> None:
        (result,) = answer.markers
        outcomes = {
            (topic.name, one.partition_index): ErrorCode(one.error_code)
            for topic in result.topics
            for one in topic.partitions
        }
        _note_outcomes(partition, markers, outcomes)

    # Requests

    async def _request_with_id(self, key: str, operation: _OperationWithId) -> Any:
        """Run an operation of the shard; a new producer id is fetched only when it is needed."""
        from barnabas.coordinator.transactions.transaction_shard import ProducerIdNeededError

        try:
            return await self.request(
                key, lambda shard, now_ms, token: operation(shard, None, now_ms, token)
            )
        except ProducerIdNeededError:
            fresh = await self.producer_ids.next()
            return await self.request(
                key, lambda shard, now_ms, token: operation(shard, fresh, now_ms, token)
            )

    async def init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Start a transactional producer, or resume one after an error."""
        return await self._request_with_id(
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
        """Add partitions to a transaction."""
        added = list(partitions)
        await self.request(
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
        """Return for each partition whether it is part of a transaction."""
        asked = list(partitions)
        return await self.request(
            transactional_id,
            lambda shard, _now_ms, token: shard.verify_partitions(
                transactional_id, producer_id, producer_epoch, asked, token
            ),
        )

    async def end_transaction(self, request: EndTxnRequest, client_version: int) -> EndTxnResponse:
        """Commit or abort a producer's transaction."""
        return await self._request_with_id(
            request.transactional_id,
            lambda shard, fresh, now_ms, token: shard.end_transaction(
                request, client_version, fresh, now_ms, token
            ),
        )

    async def describe(self, transactional_id: str) -> TransactionState:
        """Return one transactional id."""
        return await self.request(
            transactional_id,
            lambda shard, _now_ms, token: shard.describe(transactional_id, token),
        )

    async def list_transactions(self, filters: Filters) -> list[ListedTransaction]:
        """Return those of this node. Raises COORDINATOR_LOAD_IN_PROGRESS while some are missing."""
        return await self.request_all(
            lambda shard, now_ms, token: shard.list_transactions(filters, now_ms, token)
        )


def _note_outcomes(
    partition: TransactionPartition,
    markers: SendMarkers,
    outcomes: dict[TopicPartition, ErrorCode],
) -> None:
    from barnabas.coordinator.transactions.pending_markers import MarkersAnswered

    failed = {written: code.name for written, code in outcomes.items() if code}
    if failed:
        logger.warning(
            "markers not written transactional_id=%s partitions=%s",
            markers.transactional_id,
            failed,
        )
    partition.markers_answered(
        MarkersAnswered(
            markers.transactional_id, markers.producer_id, markers.producer_epoch, outcomes
        )
    )


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
