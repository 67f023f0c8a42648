"""Properties of followers: their fetches, fetchers, throttles and checkpoints."""

import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio

from barnabas.client import outgoing_sockets
from barnabas.client.failures import Address
from barnabas.security.principals import ANONYMOUS
from barnabas.testing import Node
from tests.client.harness import eventually as until
from tests.config.effects.observed import observes
from tests.config.effects.wire import Wire, alter, create, eventually, happens, node_with, produce
from tests.server.replication.fetcher_harness import Harness, configured, with_fetchers

FETCH = {
    "replica_fetch_wait_max_ms": "123",
    "replica_fetch_min_bytes": "7",
    "replica_fetch_max_bytes": "4321",
    "replica_fetch_response_max_bytes": "87654",
}


@observes(
    "replica.fetch.wait.max.ms",
    "replica.fetch.min.bytes",
    "replica.fetch.max.bytes",
    "replica.fetch.response.max.bytes",
)
def test_followers_fetch_carries_its_limits() -> None:
    async def test(harness: Harness) -> None:
        harness.publish()
        await until(lambda: bool(harness.fetches))
        request = harness.fetches[0]
        partition = request.topics[0].partitions[0]
        assert (request.max_wait_ms, request.min_bytes) == (123, 7)
        assert (partition.partition_max_bytes, request.max_bytes) == (4321, 87654)

    with_fetchers(test, **FETCH)


@observes("replica.fetch.backoff.ms")
def test_refused_partition_is_fetched_again_after_the_backoff() -> None:
    for backoff_ms, is_soon in (("10", True), ("60000", False)):

        async def test(harness: Harness, is_soon: bool = is_soon) -> None:
            harness.leaders[0].is_leader = False  # answers NOT_LEADER_OR_FOLLOWER
            harness.publish()
            await until(lambda: bool(harness.fetches))
            if is_soon:  # a busy machine may be slow
                await until(lambda: len(harness.fetches) > 3)
            else:
                await trio.sleep(0.3)
                assert len(harness.fetches) <= 3

        with_fetchers(test, replica_fetch_backoff_ms=backoff_ms)


@observes("replica.socket.timeout.ms")
def test_silent_leader_is_left_after_the_timeout() -> None:
    for timeout_ms, is_left in (("600", True), ("60000", False)):

        async def test(harness: Harness, is_left: bool = is_left) -> None:
            harness.is_silent = True
            harness.publish()
            with trio.move_on_after(50 if is_left else 1):
                await until(lambda: harness.broker.connections > 1)
            assert (harness.broker.connections > 1) is is_left

        with_fetchers(test, replica_socket_timeout_ms=timeout_ms)


@pytest.fixture
def outgoing(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The sockets that are connected to leaders."""
    opened: list[socket.socket] = []
    connect = outgoing_sockets.connect_socket

    async def observe(address: Address) -> socket.socket:
        opened.append(sock := await connect(address))
        return sock

    monkeypatch.setattr(outgoing_sockets, "connect_socket", observe)
    return opened


@observes("replica.socket.receive.buffer.bytes")
def test_connection_to_the_leader_has_the_receive_buffer(outgoing: list[socket.socket]) -> None:
    sizes: list[int] = []
    for size in ("20000", "40000"):

        async def test(harness: Harness) -> None:
            harness.publish()
            await until(lambda: bool(harness.fetches))
            sizes.append(outgoing[-1].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))

        with_fetchers(test, replica_socket_receive_buffer_bytes=size)
    assert sizes == [40_000, 80_000]  # the system doubles the size, for its own data


def test_connection_to_the_leader_without_the_property_has_the_system_buffer(
    monkeypatch: pytest.MonkeyPatch, outgoing: list[socket.socket]
) -> None:
    async def test(harness: Harness) -> None:
        harness.publish()
        await until(lambda: bool(harness.fetches))

    set_option = socket.socket.setsockopt

    def observe(sock: socket.socket, level: int, option: int, *value: Any) -> None:
        assert sock not in outgoing or option != socket.SO_RCVBUF, "a receive buffer was set"
        set_option(sock, level, option, *value)

    monkeypatch.setattr(socket.socket, "setsockopt", observe)
    with_fetchers(test)
    assert outgoing


@observes("num.replica.fetchers", dynamic=True)
def test_partitions_are_spread_over_the_fetchers() -> None:
    async def test(harness: Harness) -> None:
        harness.publish()
        await until(lambda: harness.broker.connections == 1)
        harness.settings.publish(configured({"num.replica.fetchers": "3"}))
        await until(lambda: harness.broker.connections == 3)
        harness.leaders[2].produce(b"a")
        await until(lambda: harness.followers[2].log.log_end_offset == 1)

    with_fetchers(test, partitions=3)


@observes("replica.high.watermark.checkpoint.interval.ms")
def test_high_watermarks_are_written_at_the_interval() -> None:
    for interval_ms, is_written in (("30", True), ("60000", False)):
        config = {"replica.high.watermark.checkpoint.interval.ms": interval_ms}
        with node_with(config) as (node, wire):
            create(wire)
            produce(wire)
            checkpoint = node.data / "replication-offset-checkpoint"
            written = happens(
                lambda file=checkpoint: file.exists() and "t 0 1" in file.read_text(),
                expected=is_written,
            )
            assert written is is_written


@observes("follower.replication.throttled.rate", dynamic=True)
@observes("leader.replication.throttled.rate", dynamic=True)
@pytest.mark.parametrize("side", ["follower", "leader"])
def test_rate_of_throttled_replicas_changes_on_a_running_node(side: str) -> None:
    with node_with({}) as (node, wire):
        assert node.server is not None
        quota = getattr(node.server.replicas, f"{side}_quota")
        quota.record(5000, 1000)
        assert not quota.is_exceeded(1000)
        assert alter(wire, f"{side}.replication.throttled.rate", "1000") == 0
        assert eventually(lambda: quota.is_exceeded(1000))


@observes("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
@pytest.mark.parametrize("side", ["follower", "leader"])
def test_throttled_replicas_of_a_topic_are_counted(side: str) -> None:
    with node_with({}) as (node, wire):
        assert node.server is not None
        quota = getattr(node.server.replicas, f"{side}_quota")
        create(wire, partitions=2, **{f"{side}_replication_throttled_replicas": "1:1"})
        assert eventually(lambda: quota.is_throttled("t", 1))
        assert not quota.is_throttled("t", 0)


@observes("replication.quota.window.num", "replication.quota.window.size.seconds")
def test_rate_is_measured_over_the_windows(tmp_path: Path) -> None:
    windows = {"replication.quota.window.num": "2", "replication.quota.window.size.seconds": "3"}
    for number, (config, is_remembered) in enumerate((({}, True), (windows, False))):
        with Node(tmp_path / str(number), config=config) as node:
            assert node.server is not None
            quota = node.server.replicas.follower_quota
            quota.rate = 1
            quota.record(1_000_000, 1000)
            assert quota.is_exceeded(1000 + 10_000) is is_remembered


@observes("quota.window.num", "quota.window.size.seconds")
def test_quota_of_clients_allows_the_bytes_of_its_windows(tmp_path: Path) -> None:
    windows = {"quota.window.num": "3", "quota.window.size.seconds": "4"}
    for number, (config, seconds) in enumerate((({}, 10), (windows, 8))):
        with Node(tmp_path / str(number), config=config) as node:
            assert node.server is not None
            quotas = node.server.quotas
            image = attrs.evolve(
                node.server.image, client_quotas={((("user", None),), "consumer_byte_rate"): 100.0}
            )
            quotas.start(image)
            assert quotas.fetch is not None
            client: Any = SimpleNamespace(
                connection=SimpleNamespace(principal=ANONYMOUS), client_id="c", throttle_ms=0
            )
            assert quotas.fetch.response_bytes_max(client, 1 << 20) == 100 * seconds


@observes("controller.quota.window.num", "controller.quota.window.size.seconds")
def test_quota_of_partitions_allows_those_of_its_windows(tmp_path: Path) -> None:
    windows = {"controller.quota.window.num": "3", "controller.quota.window.size.seconds": "4"}
    for number, (config, seconds) in enumerate((({}, 11), (windows, 12))):
        with Node(tmp_path / str(number), config=config) as node:
            assert node.server is not None
            quotas = node.server.quotas
            key = ((("user", None),), "controller_mutation_rate")
            quotas.start(attrs.evolve(node.server.image, client_quotas={key: 10.0}))
            client: Any = SimpleNamespace(
                connection=SimpleNamespace(principal=ANONYMOUS), client_id="c"
            )
            assert quotas.mutations is not None
            mutations = quotas.mutations.mutations(client, is_strict=False)
            assert mutations is not None
            mutations.charge(10 * seconds)
            assert mutations.throttle_ms() == 0
            mutations.charge(10)
            assert mutations.throttle_ms() > 500


def test_checkpointed_high_watermark_is_where_a_killed_node_starts(tmp_path: Path) -> None:
    config = {"replica.high.watermark.checkpoint.interval.ms": "20"}
    with Node(tmp_path, config=config) as node:
        wire = Wire(node.port)
        create(wire)
        produce(wire)
        checkpoint = tmp_path / "replication-offset-checkpoint"
        deadline = time.monotonic() + 90
        while "t 0 1" not in (checkpoint.read_text() if checkpoint.exists() else ""):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        node.kill()
        node.start()
        assert node.server is not None
        log = node.server.logs.get("t", 0)
        assert log is not None
        assert log.high_watermark == 1
