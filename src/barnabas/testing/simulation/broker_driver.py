"""The data side of a broker in the simulation: replicas, fetchers, ISR changes, and clients.

The cores are the server's: `ReplicaManager`, `FetcherCore`, `IsrManager`, and the `Fetching` of its
Fetch handler with its sessions, and its ListOffsets handler. Messages pass as objects.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import attrs

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.cluster.replication.fetcher_assignments import FetcherKey
from barnabas.cluster.replication.fetcher_core import FetcherCore
from barnabas.cluster.replication.replica_selection import RACK_AWARE
from barnabas.config import NodeConfig
from barnabas.log import AppendInfo
from barnabas.protocol.apis import API
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.types import Uuid
from barnabas.server.api.handlers.data import fetch_handler
from barnabas.server.api.handlers.data.list_offsets_handler import list_offsets
from barnabas.server.replication.fetch_sessions import FetchSessionCache
from barnabas.testing.simulation.network import Failure, Network, Respond
from barnabas.testing.simulation.rare_states import Divergences
from barnabas.testing.simulation.sim_partition_log import SimLogs, SimRecords
from barnabas.testing.simulation.world import Process

FETCH_VERSION: Final = 17
_FETCH_TIMEOUT_MS: Final = 30_000
_CONTROLLER_TIMEOUT_MS: Final = 10_000
_CHECKPOINT_MS: Final = 5_000
_OFFSETS_VERSION: Final = 10
_FETCH_SETTINGS: Final = {"fetch.max.bytes": 55 << 20, "replica.selector.class": RACK_AWARE}


@attrs.frozen(slots=True)
class SimProduce:
    """One batch for one partition, in the words of a Produce request."""

    topic: str
    partition: int
    batch: bytes
    acks: int
    timeout_ms: int


@attrs.frozen(slots=True)
class SimProduced:
    """The outcome of a `SimProduce`: an error, or the offset of the first record.

    `leader_epoch` is the epoch of the leader that appended it.
    """

    error: ErrorCode
    offset: int = -1
    leader_epoch: int = -1


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
        self.replicas = ReplicaManager(
            process.node_id,
            logs,  # pyright: ignore[reportArgumentType]  (has what the manager uses)
            lambda: config,
            lambda: process.now_ms,
            lambda: process.now_ms,
        )
        self._network = network
        self._logs = logs
        self._leader = leader
        self._broker_epoch = broker_epoch
        self._fetchers: dict[FetcherKey, _Fetcher] = {}
        self._isr_timer = 0
        random = process.world.random
        services = SimpleNamespace(
            replicas=self.replicas,
            fetch_sessions=FetchSessionCache(1000, lambda: random.randrange(1, 1 << 31)),
            settings=SimpleNamespace(current=_FETCH_SETTINGS),
            now_ms=lambda: process.now_ms,
        )
        self._context: Any = SimpleNamespace(
            services=services,
            version=FETCH_VERSION,
            connection=SimpleNamespace(listener_name="PLAINTEXT"),
        )
        self._offsets_context: Any = SimpleNamespace(services=services, version=_OFFSETS_VERSION)

    def start(self, image: MetadataImage) -> None:
        """Host the replicas of the first image and serve clients and followers."""
        self.replicas.on_proposal = self._send_proposals
        self.replicas.apply(image, None)
        self._follow_assignments()
        self._network.serve(self.process, "broker", self._handle)
        self._check_isrs()
        self._checkpoint()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a later image."""
        self.replicas.apply(image, delta)
        self._follow_assignments()

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
                fetcher = _Fetcher(self.process, self._network, key, core, self._broker_epoch)
                self._fetchers[key] = fetcher
            if fetcher is not None:
                fetcher.poll()

    # ISR changes

    def _check_isrs(self) -> None:
        self.replicas.check_isrs()
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
                self._produce(request, respond)
            case ListOffsetsRequest():
                respond(list_offsets(self._offsets_context, request))
            case _:
                raise TypeError(f"{type(request).__name__} cannot be sent to a broker")

    def _fetch(self, request: FetchRequest, respond: Respond) -> None:
        outcome = fetch_handler.begin_fetch(self._context, request)
        if isinstance(outcome, FetchResponse):
            respond(outcome)
            return
        _ParkedFetch(self.process, outcome, respond, request.max_wait_ms)

    def _produce(self, request: SimProduce, respond: Respond) -> None:
        try:
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
            _AcksWait(self.process, partition, info, respond, request, self._on_acked)
        else:
            respond(SimProduced(ErrorCode.NONE, info.first_offset, partition.leader_epoch))


class _Fetcher:
    """Sends the requests of one fetcher core."""

    def __init__(
        self,
        process: Process,
        network: Network,
        key: FetcherKey,
        core: FetcherCore,
        broker_epoch: Callable[[], int],
    ) -> None:
        self.core = core
        self.is_stopped = False
        self._process = process
        self._network = network
        self._key = key
        self._broker_epoch = broker_epoch
        self._timer = 0
        self._divergences = Divergences(process.world.rare)

    def poll(self) -> None:
        """Send the request that is due, or set the timer."""
        if self.is_stopped:
            return
        now_ms = self._process.now_ms
        request = self.core.next_request(
            now_ms, version=FETCH_VERSION, broker_epoch=self._broker_epoch()
        )
        if request is not None:
            self._network.ask(
                self._process,
                self._key.leader,
                "broker",
                request,
                self._answered,
                self._failed,
                purpose=f"fetcher-{self._key.number}",
                timeout_ms=_FETCH_TIMEOUT_MS,
            )
            return
        self._timer += 1
        due = self.core.wakeup_ms(now_ms)
        if due is not None:
            self._process.after_ms(max(1, due - now_ms), self._due, self._timer)

    def _due(self, timer: int) -> None:
        if timer == self._timer:
            self.poll()

    def _answered(self, response: FetchResponse | ListOffsetsResponse) -> None:
        if not self.is_stopped:
            if isinstance(response, FetchResponse):
                _take_bytes(response)
                self._divergences.answered(response, self._leader_epoch)
            now_ms = self._process.now_ms
            self.core.on_response(response, now_ms, wall_ms=now_ms)
            self.poll()

    def _leader_epoch(self, key: tuple[Uuid, int]) -> int:
        followed = self.core.partitions.get(key)
        return -1 if followed is None else followed.leader_epoch

    def _failed(self, _: Failure) -> None:
        if not self.is_stopped:
            self.core.on_failure(self._process.now_ms)
            self.poll()


def _take_bytes(response: FetchResponse) -> None:
    """Replace what the leader read by its bytes, as a connection does."""
    for topic in response.responses:
        for answer in topic.partitions:
            records: Any = answer.records
            if isinstance(records, SimRecords):
                answer.records = records.data


class _ParkedFetch:
    """A fetch that waits for records or for its time."""

    def __init__(
        self,
        process: Process,
        fetching: fetch_handler.Fetching,
        respond: Respond,
        wait_ms: int,
    ) -> None:
        self._process = process
        self._fetching = fetching
        self._respond = respond
        self._is_over = False
        self._is_woken = False
        self._watch = fetching.start_watching()
        self._watch.wake = self._wake
        process.after_ms(wait_ms, self._time_out)

    def _wake(self) -> None:
        """Look again after the current event: its listeners must return quickly."""
        if not self._is_woken:
            self._is_woken = True
            self._process.after_ms(0, self._look)

    def _look(self) -> None:
        self._is_woken = False
        if not self._is_over and self._fetching.look_again():
            self._end()

    def _time_out(self) -> None:
        if not self._is_over:
            self._fetching.look_again()
            self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._watch.wake = None
            self._fetching.stop_watching()
            self._respond(self._fetching.response())


class _AcksWait:
    """A produce with acks=all that waits for the in-sync replicas."""

    def __init__(
        self,
        process: Process,
        partition: Partition,
        info: AppendInfo,
        respond: Respond,
        request: SimProduce,
        on_acked: Callable[[Partition, int], None],
    ) -> None:
        self._partition = partition
        self._offset = info.first_offset
        self._leader_epoch = partition.leader_epoch
        self._last_offset = info.last_offset
        self._respond = respond
        self._is_over = False
        partition.listeners[self] = None
        self._on_acked = on_acked
        process.after_ms(request.timeout_ms, self._settle, ErrorCode.REQUEST_TIMED_OUT)
        self.partition_changed(partition)

    def partition_changed(self, partition: Partition) -> None:
        """Answer when the outcome is known."""
        outcome = partition.acks_outcome(self._last_offset)
        if outcome is not None:
            self._settle(outcome)

    def _settle(self, outcome: ErrorCode) -> None:
        if not self._is_over:
            self._is_over = True
            self._partition.listeners.pop(self, None)
            is_acked = outcome is ErrorCode.NONE
            if is_acked:
                self._on_acked(self._partition, self._last_offset)
            offset = self._offset if is_acked else -1
            self._respond(SimProduced(outcome, offset, self._leader_epoch))
