"""The broker's lifecycle in the simulation: registration and heartbeats over the network."""

from collections.abc import Callable, Iterable, Sequence

from barnabas.cluster.broker.broker_identity import NO_EPOCH, BrokerIdentity
from barnabas.cluster.broker.broker_lifecycle import (
    BrokerLifecycle,
    BrokerState,
    LifecycleRequest,
    LifecycleResponse,
    LifecycleTimeouts,
)
from barnabas.cluster.metadata.feature_levels import REGISTERED
from barnabas.protocol.apis import API
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.network import Failure, Network
from barnabas.testing.simulation.quorum_disk import CLUSTER_ID
from barnabas.testing.simulation.world import Process

_TIMEOUTS = LifecycleTimeouts(heartbeat_ms=2000, session_ms=9000, initial_registration_ms=60_000)
_NO_LEADER_RETRY_MS = 50


class LifecycleDriver:
    """Runs the lifecycle of one life of a broker."""

    def __init__(
        self,
        process: Process,
        network: Network,
        directories: Sequence[Uuid],
        *,
        rack: str | None,
        previous_epoch: int,
        leader: Callable[[], int | None],
        metadata_offset: Callable[[], int],
        is_last_broker: Callable[[], bool],
    ) -> None:
        self._process = process
        self._network = network
        self._leader = leader
        self._metadata_offset = metadata_offset
        self._is_last_broker = is_last_broker
        incarnation = Uuid(process.world.random.randbytes(16))
        self.lifecycle = BrokerLifecycle(
            BrokerIdentity(process.node_id, incarnation, tuple(directories)),
            _registration(process.node_id, incarnation, directories, rack, previous_epoch),
            _TIMEOUTS,
        )
        self._timer = 0
        self._has_asked = False
        self._on_stopped: Callable[[], None] | None = None

    @property
    def state(self) -> BrokerState:
        """The state of the broker."""
        return self.lifecycle.state

    @property
    def epoch(self) -> int:
        """The epoch of the registration, -1 before it."""
        return self.lifecycle.identity.epoch

    @property
    def may_be_registered_unknowingly(self) -> bool:
        """True when the controller may have an epoch of this broker that the broker lacks.

        A clean stop counts as an unclean one then.
        """
        return self._has_asked and self.epoch == NO_EPOCH

    def start(self) -> None:
        """Begin to register."""
        self.lifecycle.start(self._process.now_ms)
        self.poll()

    def ready_to_unfence(self) -> None:
        """The broker has applied its first image."""
        self.lifecycle.ready_to_unfence(self._process.now_ms)
        self.poll()

    def report_offline(self, directories: Iterable[Uuid]) -> None:
        """Report failed log directories to the controller."""
        self.lifecycle.report_offline(directories, self._process.now_ms)
        self.poll()

    def shut_down(self, on_stopped: Callable[[], None]) -> None:
        """Begin a controlled shutdown; `on_stopped` is called when the broker may stop."""
        self._on_stopped = on_stopped
        self.lifecycle.begin_controlled_shutdown(self._process.now_ms)
        self.poll()

    def poll(self) -> None:
        """Send the request that is due, and set the timer."""
        lifecycle, process = self.lifecycle, self._process
        request = lifecycle.poll(process.now_ms, self._metadata_offset())
        if lifecycle.state is BrokerState.SHUTTING_DOWN:
            self._end()
            return
        if request is not None:
            self._send(request)
        self._timer += 1
        due = lifecycle.wakeup_ms()
        if due is not None:
            process.after_ms(max(1, due - process.now_ms), self._tick, self._timer)

    def _end(self) -> None:
        """Stop the process, cleanly, or because it could not register in time."""
        on_stopped, self._on_stopped = self._on_stopped, None
        if on_stopped is not None:
            on_stopped()
        elif self.lifecycle.is_registration_overdue:
            self._process.world.note(self._process, "could not register in time")
            self._process.kill()

    def _tick(self, timer: int) -> None:
        if timer == self._timer:
            self.poll()

    def _send(self, request: LifecycleRequest) -> None:
        leader = self._leader()
        if leader is None:
            self._process.after_ms(_NO_LEADER_RETRY_MS, self._fail, ErrorCode.NOT_CONTROLLER)
            return
        self._has_asked = True
        version = API[request.API_KEY].advertised[1]
        self._network.ask(
            self._process,
            leader,
            "controller",
            (request, version),
            self._take,
            self._lose,
            purpose="lifecycle",
            timeout_ms=self.lifecycle.request_timeout_ms(self._process.now_ms),
        )

    def _take(self, outcome: LifecycleResponse | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            self._fail(outcome.code)
            return
        self.lifecycle.on_response(outcome, self._process.now_ms)
        self.poll()

    def _lose(self, _: Failure) -> None:
        self._fail(ErrorCode.NETWORK_EXCEPTION)

    def _fail(self, error: ErrorCode) -> None:
        self.lifecycle.on_failure(error, self._process.now_ms)
        if self._is_last_broker():
            self.lifecycle.end_controlled_shutdown()
        self.poll()


def _registration(
    node_id: int,
    incarnation: Uuid,
    directories: Sequence[Uuid],
    rack: str | None,
    previous_epoch: int,
) -> BrokerRegistrationRequest:
    request = BrokerRegistrationRequest
    return request(
        broker_id=node_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=incarnation,
        listeners=[
            request.Listener(
                name="PLAINTEXT", host=f"node-{node_id}", port=9092, security_protocol=0
            )
        ],
        features=[
            request.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in REGISTERED.items()
        ],
        rack=rack,
        log_dirs=list(directories),
        previous_broker_epoch=previous_epoch,
    )
