"""The transaction coordinator of a node (Kafka's TransactionCoordinator, without the shards)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.metadata.feature_levels import TRANSACTION_VERSION, served
from barnabas.coordinator.transactions.transaction_settings import TransactionSettings
from barnabas.server.coordinators.broker_requests import BrokerRequests
from barnabas.server.coordinators.coordinator_service import CoordinatorService
from barnabas.server.coordinators.internal_topics import TRANSACTION_TOPIC
from barnabas.server.coordinators.transactions.marker_writer import LocalMarkers
from barnabas.server.coordinators.transactions.verification_guards import Guards
from barnabas.server.peer_security import Secured, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.cluster.metadata.delta import MetadataDelta
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.cluster.replication import ReplicaManager
    from barnabas.config.node_config import NodeConfig
    from barnabas.coordinator.core.coordinator_output import Output, Token
    from barnabas.coordinator.transactions.pending_markers import SendMarkers
    from barnabas.coordinator.transactions.transaction import TopicPartition
    from barnabas.coordinator.transactions.transaction_listing import Filters
    from barnabas.coordinator.transactions.transaction_shard import TransactionShard
    from barnabas.protocol.errors import ErrorCode
    from barnabas.protocol.messages.describe_transactions import DescribeTransactionsResponse
    from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
    from barnabas.protocol.messages.init_producer_id import (
        InitProducerIdRequest,
        InitProducerIdResponse,
    )
    from barnabas.protocol.messages.list_transactions import ListTransactionsResponse
    from barnabas.server.coordinators.group_service import GroupCoordinator
    from barnabas.server.coordinators.transactions.marker_sender import MarkerSender
    from barnabas.server.coordinators.transactions.producer_ids import ProducerIds
    from barnabas.server.coordinators.transactions.transaction_partition import TransactionPartition
    from barnabas.server.coordinators.transactions.verification_client import VerificationClient
    from barnabas.server.quorum.metadata_publisher import MetadataPublisher
    from barnabas.server.replication.commit_wait import CommitWaits

    TransactionState: TypeAlias = DescribeTransactionsResponse.TransactionState
    ListedTransaction: TypeAlias = ListTransactionsResponse.TransactionState

    # An operation that may need a new producer id: shard, id or None, time in ms, token.
    _OperationWithId = Callable[[TransactionShard, int | None, int, Token], Output]


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
        clock: Clock,
        *,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        to_brokers: Secured = plain,
    ) -> None:
        super().__init__(replicas, metadata, config, commits, clock)
        self.producer_ids = producer_ids
        self._to_brokers = to_brokers
        self.guards = Guards()
        self._timeout_ms = config().get_int("request.timeout.ms")
        self.local_markers = LocalMarkers(
            replicas, groups, self.guards, commits, clock, timeout_ms=self._timeout_ms
        )
        self._settings = transaction_settings(config())
        self._marker_brokers = self._requests_for("txn-marker-sender")
        self._verification_brokers = self._requests_for("add-partitions")
        self._marker_sender: MarkerSender | None = None

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

    def _requests_for(self, purpose: str) -> BrokerRequests:
        return BrokerRequests(
            self._replicas.broker_id,
            purpose,
            self._config().inter_broker_listener_name,
            lambda: self._metadata.image,
            self._to_brokers,
        )

    def transaction_version(self) -> int:
        """Return the finalized level of transaction.version, as far as it is served."""
        return served(self._metadata.image.features).get(TRANSACTION_VERSION, 0)

    # Other brokers

    async def run(self, task_status: tasks.TaskStatus = tasks.IGNORED) -> None:
        """Coordinate until cancelled."""
        async with tasks.open_nursery() as nursery:
            for brokers in (self._marker_brokers, self._verification_brokers):
                await nursery.start(brokers.run)
            await nursery.start(super().run)
            task_status.started()

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take new metadata; markers that waited for a leader are sent."""
        super().on_image(image, delta)
        self._break_guards(delta)
        for brokers in (self._marker_brokers, self._verification_brokers):
            brokers.follow_metadata()
        if self._marker_sender is not None:
            self._marker_sender.follow_metadata()

    def _break_guards(self, delta: MetadataDelta) -> None:
        """Break the guards of partitions whose leader epoch changed."""
        if not len(self.guards):
            return
        for topic in delta.topics.values():
            for number, partition in topic.changed.items():
                before = topic.before.get(number)
                if before is not None and before.leader_epoch != partition.leader_epoch:
                    self.guards.leader_changed(topic.name, number)

    def _send_markers(self, partition: TransactionPartition, markers: SendMarkers) -> None:
        """Write markers at the leaders of their partitions; the shard decides on the outcomes."""
        from barnabas.server.coordinators.transactions.marker_sender import MarkerSender

        if self._marker_sender is None:
            self._marker_sender = MarkerSender(
                self._replicas.broker_id,
                lambda: self._metadata.image,
                self.local_markers,
                self._marker_brokers,
            )
        self._marker_sender.send(partition, markers)

    @cached_property
    def verifier(self) -> VerificationClient:
        """Verifies the transactions of first writes with their coordinators, here or elsewhere."""
        from barnabas.server.coordinators.transactions.verification_client import (
            VerificationClient,
        )

        return VerificationClient(
            self._replicas.broker_id,
            lambda: self._metadata.image,
            self,
            self._verification_brokers,
        )

    # Requests

    async def _request_with_id(self, key: str, operation: _OperationWithId) -> Any:
        """Run an operation of the shard; a new producer id is fetched only when it is needed."""
        from barnabas.coordinator.transactions.producer_initialization import ProducerIdNeededError

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
