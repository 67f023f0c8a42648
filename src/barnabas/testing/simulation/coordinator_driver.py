"""The coordinators of one life of a simulated broker.

The partitions, shards, commit waits, marker writers and guards are the server's. This shell loads
partitions when the broker begins to lead them, and carries requests between brokers.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from barnabas.clock import Clock
from barnabas.cluster.broker.producer_id_blocks import InvalidBlockError, ProducerIdBlocks
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import TRANSACTION_VERSION
from barnabas.cluster.metadata.image import MetadataImage, PartitionImage
from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.config import NodeConfig
from barnabas.coordinator.core.coordinator_output import Caller, Output, Token
from barnabas.coordinator.core.routing import partition_for
from barnabas.coordinator.groups.group_shard import GroupShard
from barnabas.coordinator.transactions.transaction_shard import (
    ProducerIdNeededError,
    TransactionShard,
)
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.server.coordinators.coordinator_partition import (
    CoordinatorContext,
    CoordinatorPartition,
    Operation,
)
from barnabas.server.coordinators.coordinator_turns import ProducerBatch
from barnabas.server.coordinators.group_partition import GroupPartition
from barnabas.server.coordinators.group_service import assignors_of, group_settings
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from barnabas.server.coordinators.transactions.marker_writer import LocalMarkers
from barnabas.server.coordinators.transactions.transaction_partition import TransactionPartition
from barnabas.server.coordinators.transactions.transaction_service import transaction_settings
from barnabas.server.coordinators.transactions.verification_guards import Guards
from barnabas.server.replication.commit_wait import CommitWaits
from barnabas.testing.simulation.coordinator_calls import (
    AddPartitions,
    CoordinatorCall,
    EndTransaction,
    FetchOffsets,
    VerifyPartitions,
)
from barnabas.testing.simulation.marker_driver import MarkerDriver
from barnabas.testing.simulation.network import Network, Respond
from barnabas.testing.simulation.sim_coordinator_clock import SimCoordinatorClock, SimWaiter
from barnabas.testing.simulation.world import Process

_LOAD_MS: Final = 200
_RELOAD_MS: Final = 100
_COMMIT_TIMEOUT_MS: Final = 5_000
_OFFSETS_VERSION: Final = 9
_CALLER: Final = Caller(version=1)
_CLASSIC_CALLER: Final = Caller("classic", version=9)

AskController = Callable[[Any, Callable[[Any], None]], None]
"""Sends a request to the active controller; the callback gets a message, or None."""


class CoordinatorDriver:
    """The groups and transactions whose partitions this broker leads."""

    def __init__(
        self,
        process: Process,
        network: Network,
        replicas: ReplicaManager,
        config: NodeConfig,
        *,
        broker_epoch: Callable[[], int],
        ask_controller: AskController,
    ) -> None:
        self._process = process
        self._replicas = replicas
        self._config = config
        self._broker_epoch = broker_epoch
        self._ask_controller = ask_controller
        self.guards = Guards()
        self._ids = 0
        self.running = 0  # requests without an answer
        self.groups: dict[int, GroupPartition] = {}
        self.transactions: dict[int, TransactionPartition] = {}
        self.clock = SimCoordinatorClock(process)
        self.commits = CommitWaits(_never_flushed, lambda: self.clock)
        self._context = CoordinatorContext(
            replicas, self.commits, self.clock, self._resume, self._failed
        )
        self._group_settings = group_settings(config, assignors_of(config))
        self._blocks = ProducerIdBlocks()
        holder: Any = _GroupsHolder(self.groups)
        self.markers = LocalMarkers(
            replicas,
            holder,
            self.guards,
            self.commits,
            Clock(self.clock.now_ms, self.clock.now_ms),
            timeout_ms=_COMMIT_TIMEOUT_MS,
        )
        self._sender = MarkerDriver(process, network, lambda: replicas.image, self.markers)

    @property
    def waiting_markers(self) -> int:
        """The number of markers that wait for a broker."""
        return self._sender.waiting

    # Partitions

    def follow(self, image: MetadataImage, delta: MetadataDelta | None) -> None:
        """Lead the partitions in exactly the leader epochs of the image (`CoordinatorService`)."""
        for topic, partitions in self._tables():
            self._follow(topic, partitions, image)
        if delta is None:
            return
        changed = {topic.name for topic in delta.topics.values()}
        created = any(topic.is_new for topic in delta.topics.values())
        for groups in list(self.groups.values()):
            groups.update_metadata(image, self._group_settings, changed=changed, created=created)
        for topic in delta.topics.values():
            for number, partition in topic.changed.items():
                before = topic.before.get(number)
                if before is not None and before.leader_epoch != partition.leader_epoch:
                    self.guards.leader_changed(topic.name, number)
        self._sender.follow_metadata()

    def _tables(self) -> tuple[tuple[str, dict[int, Any]], ...]:
        return (OFFSETS_TOPIC, self.groups), (TRANSACTION_TOPIC, self.transactions)

    def _follow(self, name: str, partitions: dict[int, Any], image: MetadataImage) -> None:
        topic = image.topics_by_name.get(name)
        found: Mapping[int, PartitionImage] = {} if topic is None else topic.partitions
        here = self._process.node_id
        epochs = {index: each.leader_epoch for index, each in found.items() if each.leader == here}
        for index, partition in list(partitions.items()):
            epoch = epochs.get(index)
            if epoch != partition.leader_epoch and not partition.continue_in(epoch):
                partitions.pop(index).resign()
        for index in sorted(epochs.keys() - partitions.keys()):
            self._begin(name, index, epochs[index], self._process.world.random.randrange(_LOAD_MS))

    def _begin(self, topic: str, index: int, epoch: int, delay_ms: int) -> None:
        partition: GroupPartition | TransactionPartition
        if topic == OFFSETS_TOPIC:
            partition = self.groups[index] = self._group_partition(index, epoch)
        else:
            partition = self.transactions[index] = self._transaction_partition(index, epoch)
        self._process.after_ms(delay_ms, self._load, topic, partition)

    def _group_partition(self, index: int, epoch: int) -> GroupPartition:
        shard = GroupShard(self._group_settings)
        shard.update_metadata(self._replicas.image, self._group_settings)
        return GroupPartition(
            self._context,
            index,
            epoch,
            shard,
            commit_timeout_ms=_COMMIT_TIMEOUT_MS,
            codec=Codec.NONE,
            resolve=_no_expressions,
        )

    def _transaction_partition(self, index: int, epoch: int) -> TransactionPartition:
        settings = transaction_settings(self._config)
        return TransactionPartition(
            self._context,
            index,
            epoch,
            TransactionShard(settings, self.transaction_version),
            commit_timeout_ms=_COMMIT_TIMEOUT_MS,
            send_markers=self._sender.send,
        )

    def transaction_version(self) -> int:
        """Return the finalized level of transaction.version."""
        return self._replicas.image.features.get(TRANSACTION_VERSION, 0)

    def _load(self, topic: str, partition: CoordinatorPartition[Any]) -> None:
        table = dict(self._tables())[topic]
        if table.get(partition.index) is not partition:
            return
        try:
            for _ in partition.load():
                pass
        except KafkaError:
            self._begin(topic, partition.index, partition.leader_epoch, _RELOAD_MS)

    def _resume(self, partition: CoordinatorPartition[Any]) -> None:
        while partition.work():
            pass

    def _failed(self, partition: CoordinatorPartition[Any], error: Exception) -> None:
        """End the run: the server would load the partition again, but this is a mistake."""
        self._process.world.fail(error)

    # Requests

    def handle(self, call: CoordinatorCall, respond: Respond) -> None:
        """Run an operation of the key's shard."""
        try:
            partition = self._partition(call)
        except KafkaError as error:
            respond(error)
            return
        self._run(partition, call, self._operation(call.request, None), None, respond)

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, check: Callable[[], None], respond: Respond
    ) -> None:
        """Write offsets into a transaction; `check` raises when they must not be written."""
        call = CoordinatorCall(request.group_id, request)

        def commit(shard: GroupShard, now_ms: int, token: Token) -> Output:
            check()
            return shard.commit_transactional_offsets(request, now_ms, token)

        try:
            partition = self._partition(call)
        except KafkaError as error:
            respond(error)
            return
        producer = ProducerBatch(request.producer_id, request.producer_epoch)
        self._run(partition, call, commit, producer, respond)

    def _partition(self, call: CoordinatorCall) -> CoordinatorPartition[Any]:
        topic = OFFSETS_TOPIC if call.is_for_groups else TRANSACTION_TOPIC
        partitions = dict(self._tables())[topic]
        found = self._replicas.image.topics_by_name.get(topic)
        index = None if found is None else partition_for(call.key, len(found.partitions))
        partition = None if index is None else partitions.get(index)
        if partition is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "another node coordinates this key")
        if not partition.is_loaded:
            raise KafkaError(partition.unavailable, "the coordinator is not loaded")
        return partition

    def _run(
        self,
        partition: CoordinatorPartition[Any],
        call: CoordinatorCall,
        operation: Operation,
        producer: ProducerBatch | None,
        respond: Respond,
    ) -> None:
        def answered(waiter: SimWaiter, result: Any) -> None:
            self.running -= 1
            partition.end(waiter)
            if isinstance(result, ProducerIdNeededError):
                self._with_producer_id(partition, call, respond)
            else:
                respond(result)

        self.running += 1
        partition.begin(operation, SimWaiter(answered), producer)

    def _with_producer_id(
        self, partition: CoordinatorPartition[Any], call: CoordinatorCall, respond: Respond
    ) -> None:
        """Run the operation again with a new producer id, perhaps from a new block."""
        fresh = self._blocks.take()
        if fresh is not None:
            self._run(partition, call, self._operation(call.request, fresh), None, respond)
            return
        node_id = self._process.node_id
        request = AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=self._broker_epoch())

        def allocated(block: Any) -> None:
            if block is None or block.error_code != ErrorCode.NONE:
                respond(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer ids"))
                return
            with suppress(InvalidBlockError):  # an older block may arrive after a newer one
                self._blocks.add(block.producer_id_start, block.producer_id_len)
            self.handle(call, respond)

        self._ask_controller(request, allocated)

    def _operation(self, call: Any, fresh: int | None) -> Operation:
        """Return the shard's operation for a request; `fresh` is a new producer id."""
        match call:
            case InitProducerIdRequest():
                return lambda shard, now, token: shard.init_producer_id(call, fresh, now, token)
            case AddPartitions(producer, added, version):
                return lambda shard, now, token: shard.add_partitions(
                    *producer, added, version, now, token
                )
            case VerifyPartitions(producer, added):
                return lambda shard, _, token: shard.verify_partitions(*producer, added, token)
            case EndTransaction(EndTxnRequest() as ending, version):
                return lambda shard, now, token: shard.end_transaction(
                    ending, version, fresh, now, token
                )
            case FetchOffsets(group):
                return lambda shard, _, token: shard.fetch_offsets(
                    group, require_stable=True, token=token
                )
            case ConsumerGroupHeartbeatRequest():
                return lambda shard, now, token: shard.consumer_heartbeat(
                    call, _CALLER, call.member_id, now, token
                )
            case JoinGroupRequest():
                return lambda shard, now, token: shard.join_group(
                    call, _CLASSIC_CALLER, self._fresh_id(), now, token
                )
            case SyncGroupRequest():
                return lambda shard, now, token: shard.sync_group(call, now, token)
            case HeartbeatRequest():
                return lambda shard, now, token: shard.heartbeat(call, now, token)
            case LeaveGroupRequest():
                return lambda shard, now, token: shard.leave_group(call, now, token)
            case OffsetCommitRequest():
                return lambda shard, now, token: shard.commit_offsets(
                    call, _OFFSETS_VERSION, now, token
                )
            case _:
                raise TypeError(f"{type(call).__name__} cannot be sent to a coordinator")

    def _fresh_id(self) -> str:
        """Return an id that no member had before, on any node and in any life."""
        process = self._process
        self._ids += 1
        return f"{process.node_id}-{process.life}-{self._ids}"

    def write_markers(self, request: WriteTxnMarkersRequest, respond: Respond) -> None:
        """Write the markers of a coordinator."""
        self.markers.write(request, respond)


class _GroupsHolder:
    """Stands for the group coordinator in `LocalMarkers`."""

    def __init__(self, partitions: dict[int, GroupPartition]) -> None:
        self.partitions = partitions


async def _never_flushed(_: Partition) -> bool:
    """Flush nothing: flush.messages has no effect in the simulation."""
    return True


def _no_expressions(*_: object) -> None:
    """Members in the simulation subscribe to names."""
