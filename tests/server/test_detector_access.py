"""The failure detector on listeners that authenticate, under their limits for connections."""

import logging
from pathlib import Path

import pytest
import trio

from barnabas.client.client_config import ClientConfig
from barnabas.client.failures import AuthenticationError
from barnabas.server.node.machine import system_clock
from barnabas.server.quorum.failure_detector import DetectorAccess, FailureDetector
from barnabas.testing import Cluster
from barnabas.testing.eventually import wait_until
from tests.config.effects.test_node_access_effects import SASL, USERS
from tests.server.test_failure_detector import Broker


def replacements(access: DetectorAccess) -> int:
    """Return how many connections a detector opens until the fourth; it must report nothing."""
    broker, opened = Broker(), list[int]()

    async def main() -> None:
        detector = FailureDetector(
            1, "PLAINTEXT", clock=system_clock(), report=broker.report, access=access
        )
        image = None
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            nursery.start_soon(detector.run)
            image = broker.image()
            detector.follow(image)
            with trio.fail_after(100):
                while len(broker.connections) < 4:
                    assert detector.just_ended() == frozenset()
                    assert detector.reachable(image) is image
                    await trio.sleep(0.005)
            nursery.cancel_scope.cancel()
        opened.append(len(broker.connections))
        broker.reset()

    trio.run(main)
    assert broker.reported == []
    return opened[0]


def test_connection_is_replaced_before_its_time_is_over() -> None:
    assert replacements(DetectorAccess(lasts_s=0.05)) == 4


def test_node_without_credentials_keeps_each_connection_for_a_short_time() -> None:
    def secured(config: ClientConfig) -> ClientConfig:
        raise AuthenticationError("no username")

    access = DetectorAccess(secured=secured, unauthenticated_lasts_s=0.05)
    assert replacements(access) == 4


def test_detector_authenticates_and_leaves_before_it_is_idle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The detector of node 1 authenticates at node 2, and leaves before the idle limit."""
    caplog.set_level(logging.INFO)
    limits = {
        "connections.max.idle.ms": "4000",
        "barnabas.authentication.timeout.ms": "4000",
        "barnabas.unauthenticated.connections.max": "1",
        "controller.quorum.fetch.timeout.ms": "30000",
    }
    with Cluster(2, tmp_path, {**SASL, **limits}, users=USERS, voters=1) as cluster:
        first, second = (cluster.nodes[number].server for number in (1, 2))
        assert first is not None
        assert second is not None
        accepted = second.transport.accepted

        def is_replaced_twice() -> bool:
            assert first.just_ended() == frozenset()
            assert first.image_for_clients is first.image
            return second.transport.accepted >= accepted + 2

        wait_until(is_replaced_twice)
        wait_until(
            lambda: {"of-brokers"} == {c.principal.name for c in second.transport.connections}
        )
    assert "closing idle connection" not in caplog.text
    assert "closing unauthenticated connection" not in caplog.text
