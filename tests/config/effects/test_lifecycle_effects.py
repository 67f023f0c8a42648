"""Properties of the broker's lifecycle: heartbeats, registration, controlled shutdown."""

import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    decode_metadata_record,
)
from barnabas.server.controller_channel.local_controller import LocalControllerChannel
from barnabas.server.node_failures import StartupError
from barnabas.testing import Node
from tests.cluster.states import registration
from tests.config.effects.observed import observes
from tests.config.effects.wire import Wire, create

BROKER_HEARTBEAT = 63


def heartbeats(node: Node) -> int:
    assert node.server is not None
    routes = node.server.dispatchers["controller"].routes.values()
    return sum(route.requests for route in routes if route.api_key == BROKER_HEARTBEAT)


@observes("broker.heartbeat.interval.ms")
def test_heartbeats_are_sent_at_the_interval() -> None:
    for interval_ms, is_frequent in (("20", True), ("600000", False)):
        with Node(config={"broker.heartbeat.interval.ms": interval_ms}) as node:
            before, deadline = heartbeats(node), time.monotonic() + (30 if is_frequent else 0.3)
            while heartbeats(node) < before + 5 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert (heartbeats(node) >= before + 5) is is_frequent


class OtherBroker:
    """A broker of another process, as the controller of a node sees it: unfenced, then silent."""

    def __init__(self, node: Node) -> None:
        assert node.server is not None
        self.node = node.server
        wire = Wire(node.server.bound_port("CONTROLLER"))
        registered = wire.ask(registration(2, incarnation=2, cluster_id=node.server.cluster_id), 4)
        request = BrokerHeartbeatRequest(
            broker_id=2, broker_epoch=registered.broker_epoch, current_metadata_offset=1 << 40
        )
        assert not wire.ask(request, 2).is_fenced

    def is_fenced(self) -> bool:
        return self.node.image.brokers[2].fenced


@observes("broker.session.timeout.ms")
def test_silent_broker_is_fenced_after_the_session_timeout() -> None:
    for timeout_ms, is_short in (("300", True), ("600000", False)):
        settings = {"broker.session.timeout.ms": timeout_ms, "broker.heartbeat.interval.ms": "50"}
        with Node(config=settings) as node:
            other, deadline = OtherBroker(node), time.monotonic() + (30 if is_short else 0.8)
            while not other.is_fenced() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert other.is_fenced() is is_short


@observes("metadata.max.idle.interval.ms")
def test_no_op_records_are_written_at_the_interval() -> None:
    for interval_ms, is_frequent in (("10", True), ("0", False), ("600000", False)):
        with Node(config={"metadata.max.idle.interval.ms": interval_ms}) as node:
            other = OtherBroker(node)
            before = other.node.image.offset
            deadline = time.monotonic() + (30 if is_frequent else 0.5)
            while other.node.image.offset < before + 5 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert (other.node.image.offset >= before + 5) is is_frequent


@observes("initial.broker.registration.timeout.ms")
def test_start_without_a_registration_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    send = LocalControllerChannel.send

    async def refuse(self: LocalControllerChannel, request: Any, *args: Any, **options: Any) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no")
        return await send(self, request, *args, **options)

    monkeypatch.setattr(LocalControllerChannel, "send", refuse)
    started = time.monotonic()
    with (
        pytest.raises(
            StartupError,
            match=r"did not register .*REQUEST_TIMED_OUT\); the last known leader is node 1 \(",
        ),
        Node(config={"initial.broker.registration.timeout.ms": "300"}),
    ):
        pass
    assert 0.3 <= time.monotonic() - started < 40  # the default is 60 s


@observes("controlled.shutdown.enable")
def test_stop_records_a_controlled_shutdown(tmp_path: Path) -> None:
    for is_enabled in (True, False):
        data = tmp_path / str(is_enabled)
        with Node(data, {"controlled.shutdown.enable": str(is_enabled).lower()}) as node:
            assert create(Wire(node.port), "t") == ""
        (segment,) = (data / "__cluster_metadata-0").glob("*.log")
        content = segment.read_bytes()
        records = [
            decode_metadata_record(record.value or b"")
            for position, header in iter_batches(content)
            if not header.is_control
            for record in read_records(content, position, header)
        ]
        changes = [r for r in records if isinstance(r, BrokerRegistrationChangeRecord)]
        assert any(change.in_controlled_shutdown for change in changes) is is_enabled
