"""The data side of a broker in the simulation: replicas, fetchers, ISR changes, and clients.

The cores are the server's: `ReplicaManager`, `FetcherCore`, `IsrManager`, and the `Fetching` of its
Fetch handler with its sessions, and its ListOffsets handler. Messages pass as objects.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import RESOURCE_BROKER, MetadataImage
from barnabas.cluster.metadata.stepwise import run_through
from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.cluster.replication.fetcher_assignments import FetcherKey
from barnabas.cluster.replication.replica_selection import RACK_AWARE
from barnabas.config import NodeConfig
from barnabas.coordinator.core.routing import partition_for
from barnabas.coordinator.transactions.transaction_state import TV_2
from barnabas.protocol.apis import API
from barnabas.protocol.batches.batch_header import producer_of
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.server.api.handlers.data import fetch_handler
from barnabas.server.api.handlers.data.delete_records_handler import begin_deletions
from barnabas.server.api.handlers.data.list_offsets_handler import list_offsets
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.server.replication.fetch_sessions import FetchSessionCache
from barnabas.server.replication.replica_fetcher import fetch_settings
from barnabas.testing.simulation.admission_driver import AdmissionDriver
from barnabas.testing.simulation.broker_lifecycle_driver import LifecycleDriver
from barnabas.testing.simulation.broker_waits import (
    AcksWait,
    DeletionsWait,
    ParkedFetch,
    SimProduce,
    SimProduced,
)
from barnabas.testing.simulation.coordinator_calls import CoordinatorCall, Producer
from barnabas.testing.simulation.coordinator_driver import CoordinatorDriver
from barnabas.testing.simulation.directory_driver import DirectoryDriver
from barnabas.testing.simulation.fetcher_driver import FETCH_VERSION, FetcherDriver
from barnabas.testing.simulation.network import Failure, Network, Respond
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.sim_logs import SimLogs
from barnabas.testing.simulation.sim_volume import SimVolume
from barnabas.testing.simulation.world import Process

_CONTROLLER_TIMEOUT_MS: Final = 10_000
_CHECKPOINT_MS: Final = 5_000
_OFFSETS_VERSION: Final = 10
_FETCH_SETTINGS: Final = {"fetch.max.bytes": 55 << 20, "replica.selector.class": RACK_AWARE}


class BrokerDriver:
    """The data side of one life of a broker."""

    def __init__(
        self,
        process: Process,
        network: Network,
        logs: SimLogs,
        config: NodeConfig,
        *,
        leader: Callable[[], int | None],
        broker_epoch: Callable[[], int],
        on_acked: Callable[[Partition, int], None],
    ) -> None:
        self.process = process
        self._on_acked = on_acked
        self.config = config
        self.replicas = ReplicaManager(
            process.node_id,
            logs,  # pyright: ignore[reportArgumentType]  (has what the manager uses)
            lambda: self.config,
            process.clock,
        )
        self.replicas.fetchers.configure(fetch_settings(config))
        self._network = network
        self._logs = logs
        self._leader = leader
        self._broker_epoch = broker_epoch
        self._fetchers: dict[FetcherKey, FetcherDriver] = {}
        self._isr_timer = 0
        random = process.world.random
        services = SimpleNamespace(
            replicas=self.replicas,
            fetch_sessions=FetchSessionCache(1000, lambda: random.randrange(1, 1 << 31)),
            settings=SimpleNamespace(current=_FETCH_SETTINGS),
            clock=process.clock,
        )
        self._start_coordinators(process, network, config)
        self._context: Any = SimpleNamespace(
            services=services,
            version=FETCH_VERSION,
            connection=SimpleNamespace(listener_name="PLAINTEXT"),
        )
        self._offsets_context: Any = SimpleNamespace(services=services, version=_OFFSETS_VERSION)

    def _start_coordinators(self, process: Process, network: Network, config: NodeConfig) -> None:
        replicas = self.replicas
        self.coordinators = CoordinatorDriver(
            process,
            network,
            replicas,
            config,
            broker_epoch=self._broker_epoch,
            ask_controller=self._ask_leader,
        )
        self._admissions = AdmissionDriver(
            process, network, lambda: replicas.image, self.coordinators.guards
        )

    def follow_directories(self, lifecycle: LifecycleDriver) -> None:
        """Report the directories of this broker; end the process when all of them are lost."""
        self.directories = DirectoryDriver(
            self.process,
            self._logs,
            lifecycle,
            ask_controller=self._ask_leader,
        )
        for volume in self._logs.volumes:
            volume.on_failure = self._directory_failed

    def _directory_failed(self, volume: SimVolume) -> None:
        self.process.world.note(self.process, "lost the directory", volume.directory_id)
        if any(each.leader >= 0 and each.is_leader for each in self._in(volume)):
            self.process.world.rare.reached(RareState.DIRECTORY_FAILED_WHILE_LEADING)
        self.process.after_ms(0, self._end_replicas_offline)

    def _in(self, volume: SimVolume) -> Iterator[Partition]:
        for topic, number in volume.logs:
            found = self.replicas.hosted(topic, number)
            if found is not None:
                yield found

    def _end_replicas_offline(self) -> None:
        if self._logs.is_lost:
            self.process.kill()
            return
        self.directories.failed()
        self.replicas.unfollow_offline()

    def _ask_leader(self, request: Any, done: Callable[[Any], None]) -> None:
        """Send a request of a coordinator to the active controller; None is a failure."""
        leader = self._leader()
        if leader is None:
            done(None)
            return

        def answered(outcome: Any) -> None:
            done(None if isinstance(outcome, KafkaError) else outcome)

        self._network.ask(
            self.process,
            leader,
            "controller",
            (request, API[request.API_KEY].advertised[1]),
            answered,
            lambda _: done(None),
            purpose="coordinator",
            timeout_ms=_CONTROLLER_TIMEOUT_MS,
        )

    def start(self, image: MetadataImage) -> None:
        """Host the replicas of the first image and serve clients and followers."""
        self.replicas.on_proposal = self._send_proposals
        self._configure(image)
        self.replicas.apply(image, None)
        self.coordinators.follow(image, None)
        self.directories.start(image)
        self._follow_assignments()
        self._network.serve(self.process, "broker", self._handle)
        self._check_isrs()
        self._checkpoint()

    def pending(self) -> dict[str, int]:
        """Return how much waits, by kind; consumers and followers always have fetches waiting."""
        coordinators = self.coordinators
        return {
            "commit waits": coordinators.commits.waiting,
            "markers": coordinators.waiting_markers,
            "coordinator requests": coordinators.running,
            "guards": len(coordinators.guards),
            "failed replicas": sum(
                core.failed_count for core in self.replicas.fetchers.cores.values()
            ),
        }

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a later image."""
        if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self._configure(image)
        self.replicas.apply(image, delta)
        self.coordinators.follow(image, delta)
        self.directories.apply(image, delta)
        self._follow_assignments()

    def _configure(self, image: MetadataImage) -> None:
        """Use the dynamic configuration of this broker."""
        cluster, own = image.broker_config(None), image.broker_config(self.process.node_id)
        if cluster or own or self.config.broker_dynamic:
            self.config = self.config.with_dynamic(cluster, own)

    def _checkpoint(self) -> None:
        self._logs.checkpoint()
        self.process.after_ms(_CHECKPOINT_MS, self._checkpoint)

    # Following

    def _follow_assignments(self) -> None:
        assignments = self.replicas.fetchers
        for key in sorted(assignments.take_changed(), key=lambda key: (key.leader, key.number)):
            core, fetcher = assignments.cores.get(key), self._fetchers.get(key)
            if fetcher is not None and fetcher.core is not core:
                fetcher.is_stopped = True
                del self._fetchers[key]
                fetcher = None
            if core is not None and fetcher is None:
                fetcher = FetcherDriver(self.process, self._network, key, core, self._broker_epoch)
                self._fetchers[key] = fetcher
            if fetcher is not None:
                fetcher.poll()

    # ISR changes

    def _check_isrs(self) -> None:
        run_through(self.replicas.check_isrs())
        self._send_proposals()
        interval_ms = max(1, self.replicas.replica_lag_time_max_ms // 2)
        self.process.after_ms(interval_ms, self._check_isrs)

    def _send_proposals(self) -> None:
        manager, now_ms = self.replicas.isr_manager, self.process.now_ms
        leader = self._leader()
        request = None if leader is None else manager.poll(self._broker_epoch(), now_ms)
        if request is not None and leader is not None:
            self._ask_controller(leader, request)
            return
        due = manager.wakeup_ms()
        if due is not None:
            self._isr_timer += 1
            self.process.after_ms(max(20, due - now_ms), self._isr_due, self._isr_timer)

    def _isr_due(self, timer: int) -> None:
        if timer == self._isr_timer:
            self._send_proposals()

    def _ask_controller(self, leader: int, request: AlterPartitionRequest) -> None:
        manager, process = self.replicas.isr_manager, self.process

        def answered(outcome: Any) -> None:
            if isinstance(outcome, KafkaError):
                manager.on_failure(process.now_ms)
            else:
                manager.on_response(outcome, process.now_ms)
            self._send_proposals()

        def failed(_: Failure) -> None:
            manager.on_failure(process.now_ms)
            self._send_proposals()

        version = API[request.API_KEY].advertised[1]
        self._network.ask(
            process,
            leader,
            "controller",
            (request, version),
            answered,
            failed,
            purpose="broker",
            timeout_ms=_CONTROLLER_TIMEOUT_MS,
        )

    # Serving

    def _handle(self, request: Any, respond: Respond) -> None:
        match request:
            case FetchRequest():
                self._fetch(request, respond)
            case SimProduce():
                self._admit(request, respond)
            case CoordinatorCall(_, TxnOffsetCommitRequest() as commit):
                self._commit_in_transaction(commit, respond)
            case CoordinatorCall():
                self.coordinators.handle(request, respond)
            case WriteTxnMarkersRequest():
                self.coordinators.write_markers(request, respond)
            case ListOffsetsRequest():
                respond(list_offsets(self._offsets_context, request))
            case DeleteRecordsRequest():
                self._delete(request, respond)
            case _:
                raise TypeError(f"{type(request).__name__} cannot be sent to a broker")

    def _fetch(self, request: FetchRequest, respond: Respond) -> None:
        outcome = fetch_handler.begin_fetch(self._context, request)
        if isinstance(outcome, FetchResponse):
            respond(outcome)
            return
        ParkedFetch(self.process, outcome, respond, request.max_wait_ms)

    def _delete(self, request: DeleteRecordsRequest, respond: Respond) -> None:
        """Delete records; the checkpoint comes before the answer, as in the handler."""
        for topic in request.topics:
            for asked in topic.partitions:
                log = self._logs.get(topic.name, asked.partition_index)
                if log is not None:
                    log.request_deletion(asked.offset)
        response, deletions = begin_deletions(self._context, request)
        self._logs.checkpoint()
        DeletionsWait(self.process, deletions, response, respond, request.timeout_ms)

    def _admit(self, request: SimProduce, respond: Respond) -> None:
        """Verify the first write of a transaction, and append."""
        if request.transactional_id is None:
            self._produce(request, respond, _always)
            return
        producer_id, epoch, _ = producer_of(request.batch)
        try:
            partition = self.replicas.partition(request.topic, request.partition)
            is_known = partition.log.producers.is_in_transaction(producer_id, epoch)
        except KafkaError as error:
            respond(SimProduced(error.code))
            return
        if is_known:
            self._produce(request, respond, _always)
            return
        self._admissions.admit(
            Producer(request.transactional_id, producer_id, epoch),
            (request.topic, request.partition),
            adds=request.adds_partition,
            proceed=lambda check: self._produce(request, respond, check),
        )

    def _commit_in_transaction(self, request: TxnOffsetCommitRequest, respond: Respond) -> None:
        topic = self.replicas.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            respond(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        number = partition_for(request.group_id, len(topic.partitions))
        self._admissions.admit(
            Producer(request.transactional_id, request.producer_id, request.producer_epoch),
            (OFFSETS_TOPIC, number),
            adds=self.coordinators.transaction_version() >= TV_2,
            proceed=lambda check: self.coordinators.commit_transactional_offsets(
                request, check, respond
            ),
        )

    def _produce(self, request: SimProduce, respond: Respond, check: Callable[[], None]) -> None:
        try:
            check()
            partition = self.replicas.partition(request.topic, request.partition)
            info = partition.append(
                bytearray(request.batch),
                required_acks=request.acks,
                origin="client",
                now_ms=self.process.now_ms,
            )
        except KafkaError as error:
            respond(SimProduced(error.code))
            return
        if request.acks == -1:
            AcksWait(self.process, partition, info, respond, request, self._on_acked)
        else:
            respond(SimProduced(ErrorCode.NONE, info.first_offset, partition.leader_epoch))


def _always() -> None:
    """Refuse no write."""
