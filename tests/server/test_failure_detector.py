"""The failure detector over real sockets: reports a process that has ended, and no other."""

import socket
import struct
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
import trio.testing

from barnabas.clock import Clock
from barnabas.cluster.controller import failure_evidence
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import Endpoint, MetadataImage
from barnabas.server.node.machine import system_clock
from barnabas.server.quorum import failure_detector
from barnabas.server.quorum.failure_detector import FailureDetector
from tests.cluster.states import Cluster

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Broker:
    """A listener that accepts connections, as the process of a broker does."""

    def __init__(self) -> None:
        self.connections: list[trio.SocketStream] = []
        self.accepted = trio.Event()
        self.reported: list[SessionKey] = []
        self._is_reported = trio.Event()
        self.port = 0
        self._accepting = trio.CancelScope()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        task_status.started()
        with self._accepting:
            async with listener:
                while True:
                    self.connections.append(await listener.accept())
                    self.accepted.set()

    def image(self, fenced: bool = False, host: str = "127.0.0.1") -> MetadataImage:
        """Return metadata with broker 1, the detector's own, and this broker as 2."""
        image = Cluster(brokers=2).image
        endpoint = Endpoint("PLAINTEXT", host, self.port)
        broker = attrs.evolve(image.brokers[2], endpoints={"PLAINTEXT": endpoint}, fenced=fenced)
        return attrs.evolve(image, brokers={**image.brokers, 2: broker})

    def reset(self) -> None:
        """Reset all connections."""
        for connection in self.connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            connection.socket.close()
        self.connections.clear()

    def report(self, key: SessionKey) -> None:
        """Take a report of the detector."""
        self.reported.append(key)
        self._is_reported.set()

    async def wait_reported(self) -> None:
        """Return once the detector has reported."""
        with trio.fail_after(100):
            await self._is_reported.wait()

    async def refuse(self) -> None:
        """Refuse new connections; the open ones stay."""
        self._accepting.cancel()
        await trio.testing.wait_all_tasks_blocked(0.01)

    async def kill(self) -> None:
        """Do what the operating system does when a process ends."""
        await self.refuse()
        self.reset()


class SkippingClock:
    """The clock of the machine; a test may skip time."""

    def __init__(self) -> None:
        self.skipped_ms = 0
        machine = system_clock()
        self.clock = Clock(machine.wall_ms, lambda: machine.monotonic_ms() + self.skipped_ms)


def observe(
    scenario: Callable[[Broker, FailureDetector], Awaitable[None]], clock: Clock | None = None
) -> list[int]:
    """Return the brokers that the detector reports during a scenario."""
    broker = Broker()

    async def main() -> None:
        detector = FailureDetector(
            1,
            "PLAINTEXT",
            clock=clock or system_clock(),
            report=broker.report,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            nursery.start_soon(detector.run)
            detector.follow(broker.image())
            with trio.fail_after(100):
                await broker.accepted.wait()
            await scenario(broker, detector)
            await broker.kill()
            nursery.cancel_scope.cancel()

    trio.run(main)
    return [key.broker_id for key in broker.reported]


def test_detector_reports_an_ended_process_at_once() -> None:
    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        await broker.kill()
        await broker.wait_reported()

    assert observe(scenario) == [2]


def test_detector_resets_with_the_listener_up_are_not_reported() -> None:
    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        for _ in range(10):
            broker.reset()
            await trio.testing.wait_all_tasks_blocked(0.05)

    assert observe(scenario) == []


def test_detector_fenced_broker_is_not_watched() -> None:
    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        detector.follow(broker.image(fenced=True))
        await trio.testing.wait_all_tasks_blocked(0.05)
        await broker.kill()
        await trio.sleep(0.3)

    assert observe(scenario) == []


def test_detector_broker_that_ends_before_it_is_unfenced_is_reported() -> None:
    """The connection exists when the broker is unfenced, so its next instant counts, too."""

    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        detector.follow(Cluster(brokers=1).image)
        broker.accepted = trio.Event()
        delta = MetadataDelta(Cluster(brokers=1).image)
        image = broker.image(fenced=True)
        delta.brokers[2] = image.brokers[2]
        detector.follow_changes(image, delta)
        with trio.fail_after(100):
            await broker.accepted.wait()
        await broker.kill()
        await broker.wait_reported()
        assert detector.just_ended() == frozenset()  # clients have never seen it

    assert observe(scenario) == [2]


def test_detector_broker_that_was_fenced_is_not_watched_before_it_registers() -> None:
    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        image = broker.image(fenced=True)
        delta = MetadataDelta(broker.image())
        delta.brokers[2] = image.brokers[2]
        detector.follow_changes(image, delta)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await broker.kill()
        await trio.sleep(0.3)

    assert observe(scenario) == []


def test_detector_invalid_host_name_is_not_reported() -> None:
    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        detector.follow(broker.image(host=".kafka"))
        await trio.testing.wait_all_tasks_blocked(0.05)

    assert observe(scenario) == []


def test_detector_reports_again_to_a_new_controller() -> None:
    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        await broker.kill()
        await broker.wait_reported()
        detector.report_again()

    assert observe(scenario) == [2, 2]


def test_reachable_image_shows_an_ended_broker_as_fenced() -> None:
    """Clients look for another leader before the controller's change is committed."""
    seen: list[bool] = []

    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        image = broker.image()
        seen.append(detector.reachable(image) is image)
        await broker.kill()
        await broker.wait_reported()
        shown = detector.reachable(image)
        seen.append(shown.brokers[2].fenced and not shown.brokers[1].fenced)

    observe(scenario)
    assert seen == [True, True]


def test_detector_disputes_what_the_controller_does_not_confirm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller had time to fence a broker that refuses this node, and reaches it."""
    monkeypatch.setattr(failure_evidence, "_UNCONFIRMED_MS", 600_000)
    skipping, seen = SkippingClock(), list[tuple[frozenset[int], bool]]()

    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        image = broker.image()

        def look() -> None:
            seen.append((detector.disputed(), detector.reachable(image).brokers[2].fenced))

        look()
        await broker.kill()
        await broker.wait_reported()
        look()
        skipping.skipped_ms = 600_001
        look()
        detector.follow(broker.image(fenced=True))
        look()

    observe(scenario, skipping.clock)
    nothing: frozenset[int] = frozenset()
    assert seen == [(nothing, False), (nothing, True), ({2}, False), (nothing, False)]


@pytest.fixture
def endless_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `settle` wait for longer than any test."""
    for module in (failure_detector, failure_evidence):
        monkeypatch.setattr(module, "SETTLE_MS", 600_000)


@pytest.mark.usefixtures("endless_settling")
def test_settle_returns_while_all_brokers_are_connected() -> None:
    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        await trio.testing.wait_all_tasks_blocked(0.05)
        with trio.fail_after(100):
            await detector.settle()

    observe(scenario)


@pytest.mark.usefixtures("endless_settling")
def test_settle_waits_until_the_ended_broker_is_fenced() -> None:
    """Also when the end of its connection has arrived and no task has read it yet."""
    order: list[str] = []

    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        await trio.testing.wait_all_tasks_blocked(0.05)
        await broker.refuse()  # otherwise the detector may connect once more, which settles it

        async def settle() -> None:
            await detector.settle()
            order.append("settled")

        async with trio.open_nursery() as nursery:
            broker.reset()
            nursery.start_soon(settle)
            await broker.wait_reported()
            order.append("fenced")
            detector.follow(broker.image(fenced=True))

    assert observe(scenario) == [2]
    assert order == ["fenced", "settled"]


def test_settle_gives_up_after_half_a_second() -> None:
    waited: list[float] = []

    async def scenario(broker: Broker, detector: FailureDetector) -> None:
        await trio.testing.wait_all_tasks_blocked(0.05)
        await broker.kill()
        started = trio.current_time()
        await detector.settle()
        waited.append(trio.current_time() - started)
        assert detector.just_ended() == {2}

    observe(scenario)
    assert 0.3 < waited[0] < 20
