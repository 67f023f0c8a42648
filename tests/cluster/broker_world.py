"""A simulated controller with brokers that register, send heartbeats, are killed and shut down.

Messages and the application of metadata are delayed at random. The controller's connections to the
brokers (`FailureEvidence`) are reset at random; those of a killed broker are closed, then refused.
At every step a ViolationError begins with the name of the rule that does not hold:

    B1  a broker is unfenced only after it has applied its own registration
    B2  a fenced broker leads no partition and is in no ISR, except as the last member
    B3  a broker whose heartbeats arrive is not fenced, also after a change of the controller
    B4  a broker whose process was killed is fenced within its session, although a network repeats
        the heartbeats of its earlier incarnations
    B5  a broker is free to stop only when each active broker has applied that it leads nothing
"""

import heapq
import random
from collections.abc import Callable

import attrs

from barnabas.cluster.broker.broker_identity import BrokerIdentity
from barnabas.cluster.broker.broker_lifecycle import (
    BrokerLifecycle,
    BrokerState,
    LifecycleRequest,
    LifecycleTimeouts,
)
from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.failure_evidence import BrokerAddress, FailureEvidence
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from tests.cluster.states import registration
from tests.cluster.test_controller_state_machine import TOKEN, commit, depose, elect, leading

TIMEOUTS = LifecycleTimeouts()
SESSION_MS = TIMEOUTS.session_ms
BROKERS = (1, 2, 3)


class ViolationError(AssertionError):
    """The world has found a broken invariant."""


@attrs.define(eq=False)
class SimBroker:
    """One process of a broker."""

    id: int
    lifecycle: BrokerLifecycle
    image: MetadataImage
    is_alive: bool = True
    heard_ms: int = 0
    ended_ms: int = 0


class BrokerWorld:
    """The controller under test and its brokers; `run` takes the world through random events."""

    controller_type: type[Controller] = Controller
    evidence_type: type[FailureEvidence] = FailureEvidence

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.machine = leading(3, controller_type=self.controller_type)
        self.evidence = self.evidence_type()
        self.connected: set[SessionKey] = set()
        # A controller that cannot connect to the brokers knows only their heartbeats.
        self.has_evidence = self.random.random() < 0.5
        self.now_ms = 10_000
        self.image = self.machine.image
        self.activated_ms = self.now_ms
        self.incarnations = 100
        self.brokers: dict[int, SimBroker] = {}
        self.repeated: list[BrokerHeartbeatRequest] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        for broker_id in BROKERS:
            self.start(broker_id)

    # Events

    def at(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._sequence, event))

    def start(self, broker_id: int) -> None:
        """Start a new process of a broker."""
        self.incarnations += 1
        request = registration(broker_id, incarnation=self.incarnations)
        identity = BrokerIdentity(broker_id, request.incarnation_id)
        lifecycle = BrokerLifecycle(identity, request, TIMEOUTS)
        broker = self.brokers[broker_id] = SimBroker(broker_id, lifecycle, self.image)
        lifecycle.start(self.now_ms)
        lifecycle.ready_to_unfence(self.now_ms)
        self.poll(broker)
        self.follow(broker)

    def kill(self, broker: SimBroker) -> None:
        self.end(broker)

    def end(self, broker: SimBroker) -> None:
        """The process has ended; its operating system closes its connections."""
        broker.is_alive, broker.ended_ms = False, self.now_ms
        for key in sorted(self.connected):
            if key.broker_id == broker.id:
                self.close(key)

    def poll(self, broker: SimBroker) -> None:
        """Send what is due, and come back for the next request."""
        if not broker.is_alive or broker.lifecycle.state is BrokerState.SHUTTING_DOWN:
            return
        request = broker.lifecycle.poll(self.now_ms, broker.image.offset)
        if request is not None:
            self.at(self.delay_ms(), lambda: self.receive(broker, request))
            if isinstance(request, BrokerHeartbeatRequest):
                self.repeated.append(request)
        else:
            wakeup_ms = broker.lifecycle.wakeup_ms() or self.now_ms + 1000
            self.at(max(1, wakeup_ms - self.now_ms), lambda: self.poll(broker))

    def follow(self, broker: SimBroker) -> None:
        """Let the broker apply the committed metadata, from time to time."""
        if broker.is_alive:
            broker.image = self.image
            is_slow = self.random.random() < 0.1
            self.at(
                self.random.randrange(1500, 3000) if is_slow else 40, lambda: self.follow(broker)
            )

    def receive(self, broker: SimBroker, request: LifecycleRequest) -> None:
        """The controller decides a request; its answer travels back."""
        answer = self.decide(request)
        if isinstance(answer, BrokerHeartbeatResponse):
            broker.heard_ms = self.now_ms
        self.at(self.delay_ms(), lambda: self.answer(broker, answer))

    def decide(
        self, request: LifecycleRequest
    ) -> BrokerRegistrationResponse | BrokerHeartbeatResponse | ErrorCode:
        self.tick()
        try:
            self.machine.submit(request, 2, TOKEN, self.now_ms)
        except KafkaError as error:
            return error.code
        (completion,) = self.settle()
        assert isinstance(completion, BrokerRegistrationResponse | BrokerHeartbeatResponse)
        return completion

    def answer(
        self,
        broker: SimBroker,
        answer: BrokerRegistrationResponse | BrokerHeartbeatResponse | ErrorCode,
    ) -> None:
        if not broker.is_alive:
            return
        if isinstance(answer, ErrorCode):
            broker.lifecycle.on_failure(answer, self.now_ms)
        else:
            broker.lifecycle.on_response(answer, self.now_ms)
        if broker.lifecycle.state is BrokerState.SHUTTING_DOWN:
            self.check_free_to_stop(broker)
            self.end(broker)
        self.poll(broker)

    def delay_ms(self) -> int:
        return self.random.randrange(300, 900) if self.random.random() < 0.1 else 5

    def tick(self) -> None:
        """Run the controller's tasks that are due."""
        while (wakeup_ms := self.machine.wakeup_ms()) is not None and wakeup_ms <= self.now_ms:
            self.machine.tick(self.now_ms)
            self.settle()

    def settle(self) -> list[object]:
        """Commit what was appended and check each image."""
        effects = commit(self.machine)
        for batch in effects.committed:
            self.check(self.image, batch.image)
            self.image = batch.image
            self.watch()
        return [completion.outcome for completion in effects.completions]

    def change_controller(self) -> None:
        """Another node leads for a moment, then this one again, without its soft state."""
        depose(self.machine)
        elect(self.machine, self.now_ms + 2000)
        self.now_ms += 2000
        self.activated_ms = self.now_ms
        self.settle()

    # Evidence

    def watch(self) -> None:
        """Keep a connection to each unfenced broker."""
        brokers = {
            SessionKey(broker.id, broker.epoch): BrokerAddress("broker", broker.id)
            for broker in self.image.brokers.values()
            if self.has_evidence and not broker.fenced
        }
        self.connected -= self.evidence.follow(brokers, self.now_ms)

    def connect(self) -> None:
        """Make the connections that are due, and report the brokers that have ended."""
        for key, _ in self.evidence.take_due(self.now_ms):
            if self.brokers[key.broker_id].is_alive:
                self.evidence.on_connected(key, self.now_ms)
                self.connected.add(key)
            else:
                self.evidence.on_refused(key, self.now_ms)
        for key in sorted(self.evidence.gone):
            self.machine.end_session(key, self.now_ms)

    def close(self, key: SessionKey) -> None:
        self.connected.discard(key)
        self.evidence.on_closed(key, self.now_ms)

    def reset(self) -> None:
        """The network resets one connection to a live broker."""
        if self.connected and self.random.random() < 0.1:
            self.close(self.random.choice(sorted(self.connected)))

    # Checks

    def check(self, before: MetadataImage, after: MetadataImage) -> None:
        for broker in after.brokers.values():
            known = before.brokers.get(broker.id)
            if known is not None and known.fenced and not broker.fenced:
                applied = self.brokers[broker.id].image.offset
                self.require(applied >= broker.epoch, "B1: unfenced before it caught up")
            if known is not None and not known.fenced and broker.fenced:
                self.check_fenced(broker.id)
        fenced = {broker.id for broker in after.brokers.values() if broker.fenced}
        for topic in after.topics_by_id.values():
            for partition in topic.partitions.values():
                self.require(partition.leader not in fenced, "B2: a fenced broker leads")
                is_last = len(partition.isr) == 1
                self.require(
                    is_last or not fenced & {*partition.isr}, "B2: a fenced broker in an ISR"
                )

    def check_fenced(self, broker_id: int) -> None:
        """A live broker was fenced: its session must have expired."""
        broker = self.brokers[broker_id]
        is_running = broker.is_alive and broker.lifecycle.state is BrokerState.RUNNING
        contact_ms = max(broker.heard_ms, self.activated_ms)
        is_expired = self.now_ms - contact_ms >= SESSION_MS
        self.require(is_expired or not is_running, "B3: fenced within its session")

    def check_killed(self) -> None:
        """Brokers whose process ended long ago are fenced."""
        for broker in self.brokers.values():
            contact_ms = max(broker.ended_ms, self.activated_ms)
            is_due = self.now_ms - contact_ms > SESSION_MS + SESSION_MS // 4 + 2000
            registered = self.image.brokers.get(broker.id)
            if not broker.is_alive and is_due and registered is not None:
                self.require(registered.fenced, "B4: never fenced")

    def check_free_to_stop(self, stopping: SimBroker) -> None:
        for broker in self.brokers.values():
            registered = self.image.brokers.get(broker.id)
            if broker is stopping or registered is None or not registered.is_active:
                continue
            if broker.is_alive and broker.lifecycle.state is BrokerState.RUNNING:
                has_led = broker.image.partition_index.has_leaderships(stopping.id)
                self.require(not has_led, "B5: stopped before others know its successors")

    def require(self, holds: bool, message: str) -> None:
        if not holds:
            raise ViolationError(f"{message} at {self.now_ms} ms")

    # Scenario

    def run(self) -> None:
        """Take the world through kills, restarts, shutdowns and changes of the controller."""
        self.advance(2000)
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=6, replication_factor=3)
        self.machine.submit(CreateTopicsRequest(topics=[topic]), 7, TOKEN, self.now_ms)
        self.settle()
        for _ in range(12):
            self.disturb(self.brokers[self.random.choice(BROKERS)])
            self.advance(self.random.randrange(500, 14_000))

    def disturb(self, broker: SimBroker) -> None:
        kind = self.random.randrange(4)
        if not broker.is_alive:
            self.start(broker.id)
        elif kind == 0:
            self.kill(broker)
        elif kind == 1:
            broker.lifecycle.begin_controlled_shutdown(self.now_ms)
            self.poll(broker)
        elif kind == 2:
            self.change_controller()

    def advance(self, ms: int) -> None:
        """Let time pass; the network repeats an old heartbeat now and then."""
        end_ms = self.now_ms + ms
        while (next_ms := self.next_ms()) <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            if self._queue and self._queue[0][0] <= self.now_ms:
                _, _, event = heapq.heappop(self._queue)
                event()
            self.connect()
            self.reset()
            self.tick()
            if self.repeated and self.random.random() < 0.05:
                self.repeat(self.random.choice(self.repeated))
            self.check_killed()
        self.now_ms = end_ms

    def next_ms(self) -> int:
        """Return the time of the next event, of the controller's task, or of a connection."""
        times = [self.machine.wakeup_ms(), self.evidence.wakeup_ms()]
        times += [self._queue[0][0]] if self._queue else []
        return min(at_ms for at_ms in times if at_ms is not None)

    def repeat(self, request: BrokerHeartbeatRequest) -> None:
        """Deliver a heartbeat of an earlier epoch again."""
        registered = self.image.brokers.get(request.broker_id)
        if registered is not None and registered.epoch != request.broker_epoch:
            self.decide(request)


def run(seed: int) -> None:
    """Run a seed; raises ViolationError."""
    BrokerWorld(seed).run()
