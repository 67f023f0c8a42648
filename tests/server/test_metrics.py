"""The metrics endpoint, and the log lines that programs read."""

import json
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from barnabas.clock import Clock
from barnabas.cluster.controller.election_counts import ElectionCounts
from barnabas.coordinator.groups.rebalance_history import Cause
from barnabas.log_lines import JsonFormatter, TextFormatter
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.api.node_quotas import ClientQuotas, QuotaWindows
from barnabas.server.monitoring import metrics_http
from barnabas.server.monitoring.metrics import Metrics
from barnabas.server.monitoring.metrics_http import NodePages, serve_http
from barnabas.server.monitoring.security_metrics import security_families
from barnabas.server.quorum.election_times import ElectionTimes
from barnabas.server.storage.log_cleaner import LogCleaner
from barnabas.server.storage.scrubber import Scrubber
from barnabas.server.transport.connection_rates import ConnectionRates


def in_trio(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        trio.run(test)

    run.__name__ = test.__name__
    return run


def fake_node() -> Any:
    route = SimpleNamespace(name="Produce", version=13, requests=5, seconds=0.25, errors=1)
    leaders = (
        SimpleNamespace(leader=1, replicas=(1,)),
        SimpleNamespace(leader=-1, replicas=(1,)),
    )
    topic = SimpleNamespace(partitions=dict(enumerate(leaders)))
    node = SimpleNamespace(
        ready=True,
        dispatchers={"broker": SimpleNamespace(routes={1: route}, listener="broker")},
        transport=SimpleNamespace(
            connections={1, 2}, accepted=7, refused=0, logins={}, rates=fake_rates()
        ),
        quotas=fake_quotas(),
        image=SimpleNamespace(topics_by_name={"t": topic}, offset=42, brokers={}),
        disk=SimpleNamespace(fsyncs=3),
        logs=SimpleNamespace(volumes=[]),
        replicas=SimpleNamespace(
            partitions=lambda: iter(()),
            fetchers=SimpleNamespace(max_lag=0, failed_count=0),
            isr_expands=5,
            isr_shrinks=6,
        ),
        records=SimpleNamespace(requested=9, waiting=1, starts=2),
        groups=SimpleNamespace(
            TOPIC="__consumer_offsets", failures=4, rebalance_causes=rebalance_causes
        ),
        transactions=SimpleNamespace(TOPIC="__transaction_state", failures=0),
    )
    node.listeners = []
    node.quorum = fake_quorum(node.image)
    node.channel = SimpleNamespace(silences=4)
    node.disputed_brokers = lambda: frozenset({2})
    unused: Any = None
    node.background = SimpleNamespace(
        log_cleaner=LogCleaner(unused, unused, unused, unused, unused, unused),
        scrubber=Scrubber(unused, unused, unused),
    )
    node.started = True
    node.metrics = Metrics(node)
    node.pages = NodePages(
        node.metrics, lambda: node.started, lambda: node.ready, node.groups.rebalance_causes
    )
    return node


def fake_rates() -> ConnectionRates:
    rates = ConnectionRates(11, 1000, lambda: 0)
    rates.delays["PLAINTEXT"].add(250)
    rates.refusals["PLAINTEXT"].add(1000)
    rates.refusals["PLAINTEXT"].add(500)
    return rates


def fake_quotas() -> ClientQuotas:
    windows = QuotaWindows(11, 1000)
    quotas = ClientQuotas(windows, windows, lambda: 0)
    quotas.counts["request_percentage"].add(750)
    quotas.counts["request_percentage"].exempt_ns = 250_000_000
    return quotas


def fake_quorum(image: Any) -> Any:
    core = SimpleNamespace(
        high_watermark=46,
        is_leader=False,
        epoch=7,
        leader_id=2,
        voters=(1, 2, 3),
        log_end_offset=48,
    )
    return SimpleNamespace(
        publisher=SimpleNamespace(failures={"replicas": 2}),
        core=core,
        image=image,
        election_times=ElectionTimes(new_controllers=3, elections=2, seconds=0.5),
        partition_elections=ElectionCounts(9, 2, 1, 4, 0.25),
        metadata_timestamp_ms=9_000,
        clock=Clock(lambda: 9_500, lambda: 9_500),
    )


def rebalance_causes(group_id: str) -> list[Cause]:
    if group_id != "ä/b":
        raise KafkaError(ErrorCode.NOT_COORDINATOR, "another node coordinates this key")
    return [Cause(7, 2, "member ä joined")]


async def get(port: int, request: bytes) -> tuple[bytes, bytes]:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(request)
        response = b""
        async for data in stream:
            response += data
    head, _, body = response.partition(b"\r\n\r\n")
    return head, body


async def with_endpoint(node: Any, ask: Callable[[int], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve_http, node.pages, "127.0.0.1", 0)
        with trio.fail_after(60):
            await ask(port)
        nursery.cancel_scope.cancel()


@in_trio
async def test_http_endpoint_metrics_have_the_values_of_the_node() -> None:
    async def ask(port: int) -> None:
        head, body = await get(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert b"text/plain; version=0.0.4" in head
        lines = body.decode().splitlines()
        assert (
            'barnabas_request_seconds_count{api="Produce",listener="broker",version="13"} 5.0'
            in lines
        )
        assert "barnabas_record_jobs_total 9.0" in lines
        failures = 'barnabas_metadata_subscriber_failures_total{subscriber="replicas"} 2.0'
        assert failures in lines
        assert (
            'barnabas_request_seconds_sum{api="Produce",listener="broker",version="13"} 0.25'
            in lines
        )
        assert 'barnabas_coordinator_failures_total{topic="__consumer_offsets"} 4.0' in lines
        assert 'barnabas_request_errors_total{api="Produce"} 1.0' in lines
        assert "barnabas_connections 2.0" in lines
        time = 'quota="request_percentage"'
        address = 'listener="PLAINTEXT",quota="connection_creation_rate"'
        late = 'listener="PLAINTEXT",quota="max.connection.creation.rate"'
        assert f"barnabas_throttled_requests_total{{{time}}} 1.0" in lines
        assert f"barnabas_throttle_seconds_total{{{time}}} 0.75" in lines
        assert 'barnabas_throttled_requests_total{quota="producer_byte_rate"} 0.0' in lines
        assert "barnabas_exempt_request_seconds_total 0.25" in lines
        assert f"barnabas_throttled_connections_total{{{address}}} 2.0" in lines
        assert f"barnabas_connection_throttle_seconds_total{{{address}}} 1.5" in lines
        assert f"barnabas_throttled_connections_total{{{late}}} 1.0" in lines
        assert f"barnabas_connection_throttle_seconds_total{{{late}}} 0.25" in lines
        assert "barnabas_partitions 2.0" in lines
        assert "barnabas_metadata_offset 42.0" in lines
        assert "barnabas_offline_partitions 1.0" in lines
        assert "barnabas_isr_expands_total 5.0" in lines
        assert "barnabas_isr_shrinks_total 6.0" in lines
        assert any(line.startswith("process_resident_memory_bytes") for line in lines)

    await with_endpoint(fake_node(), ask)


@in_trio
async def test_http_endpoint_metrics_have_the_state_of_the_quorum() -> None:
    async def ask(port: int) -> None:
        _, body = await get(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        lines = body.decode().splitlines()
        for line in (
            "barnabas_active_controllers 0.0",
            "barnabas_quorum_epoch 7.0",
            "barnabas_quorum_leader 2.0",
            "barnabas_quorum_voters 3.0",
            "barnabas_disputed_brokers 1.0",
            "barnabas_silent_controller_connections_total 4.0",
            "barnabas_quorum_log_end_offset 48.0",
            "barnabas_metadata_committed_offset 45.0",
            "barnabas_metadata_lag_records 3.0",
            "barnabas_metadata_timestamp_seconds 9.0",
            "barnabas_metadata_lag_seconds 0.5",
            "barnabas_new_active_controllers_total 3.0",
            "barnabas_quorum_election_seconds_count 2.0",
            "barnabas_preferred_replica_imbalance 1.0",
            "barnabas_leader_changes_total 9.0",
            "barnabas_unclean_leader_elections_total 2.0",
            "barnabas_elr_leader_elections_total 1.0",
            "barnabas_leader_election_seconds_count 4.0",
            "barnabas_leader_election_seconds_sum 0.25",
        ):
            assert line in lines

    await with_endpoint(fake_node(), ask)


@in_trio
async def test_http_endpoint_health_follows_the_node() -> None:
    node = fake_node()

    async def ask(port: int) -> None:
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        assert (await get(port, request))[0].startswith(b"HTTP/1.1 200")
        node.ready = False
        assert (await get(port, request))[0].startswith(b"HTTP/1.1 503")
        node.started = False
        metrics, alive = (
            b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % x for x in (b"metrics", b"livez")
        )
        assert (await get(port, metrics))[0].startswith(b"HTTP/1.1 503")
        assert (await get(port, alive))[0].startswith(b"HTTP/1.1 200")

    await with_endpoint(node, ask)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /else HTTP/1.0\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.0\r\n\r\n", b"405"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"400"),  # without a Host header
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000, b"431"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
    ],
)
def test_http_endpoint_other_requests_are_refused(request_: bytes, status: bytes) -> None:
    @in_trio
    async def run() -> None:
        async def ask(port: int) -> None:
            assert (await get(port, request_))[0].startswith(b"HTTP/1.1 " + status)

        await with_endpoint(fake_node(), ask)

    run()


def record(message: str, *args: object, error: bool = False) -> logging.LogRecord:
    info: Any = None
    if error:
        try:
            raise ValueError("broken")
        except ValueError:
            info = sys.exc_info()
    record = logging.LogRecord(
        "barnabas.server.node.node", logging.WARNING, "node.py", 1, message, args, info
    )
    record.created, record.msecs = 1_700_000_000.123, 123.0
    return record


def test_text_line_has_time_level_logger_and_message() -> None:
    line = TextFormatter().format(record("slow request api=%s ms=%.1f", "Fetch", 12.34))
    assert line == (
        "2023-11-14T22:13:20.123Z warning server.node.node slow request api=Fetch ms=12.3"
    )


def test_json_line_has_the_pairs_as_members() -> None:
    line = JsonFormatter().format(record("slow request api=%s hint=%s", "Fetch", "do this now"))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "warning",
        "logger": "server.node.node",
        "message": "slow request",
        "api": "Fetch",
        "hint": "do this now",
    }


def test_value_of_a_client_begins_no_other_line() -> None:
    forged = "g\r\n2023-11-14T22:13:20.123Z info \x1b[31m\u2028\ttab"
    line = TextFormatter().format(record("joined group=%s", forged, error=True))
    first, *traceback = line.splitlines()
    assert first.endswith("group=g\\r\\n2023-11-14T22:13:20.123Z info \\x1b[31m\\u2028\ttab")
    assert traceback[0].startswith("Traceback")


def test_value_of_a_client_gives_no_other_time_or_level() -> None:
    line = JsonFormatter().format(record("joined group=%s", "g time=1 level=debug message=m x=y"))
    found = json.loads(line)
    assert (found["level"], found["message"], found["x"]) == ("warning", "joined", "y")
    assert found["time"] == "2023-11-14T22:13:20.123Z"


def test_json_line_contains_the_traceback() -> None:
    line = JsonFormatter().format(record("handler failed api=X", error=True))
    assert "\n" not in line
    assert "ValueError: broken" in json.loads(line)["traceback"]


@in_trio
async def test_http_endpoint_group_rebalances_are_the_coordinators_causes() -> None:
    async def ask(port: int) -> None:
        head, body = await get(port, b"GET /groups/%C3%A4%2Fb/rebalances HTTP/1.0\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        cause = {"time_ms": 7, "epoch": 2, "reason": "member ä joined"}
        assert json.loads(body) == {"group": "ä/b", "rebalances": [cause]}
        head, body = await get(port, b"GET /groups/other/rebalances HTTP/1.0\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 404 Not Found")
        assert json.loads(body)["error"] == "NOT_COORDINATOR"

    await with_endpoint(fake_node(), ask)


@in_trio
async def test_http_endpoint_head_has_the_length_and_no_body() -> None:
    async def ask(port: int) -> None:
        head, body = await get(port, b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"Content-Length: 3" in head
        assert body == b""

    await with_endpoint(fake_node(), ask)


@in_trio
async def test_http_endpoint_client_that_closes_at_once_leaves_it_serving() -> None:
    async def ask(port: int) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.aclose()
        head, _ = await get(port, b"GET /healthz HTTP/1.0\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")

    await with_endpoint(fake_node(), ask)


@in_trio
async def test_http_endpoint_of_too_many_connections_closes_the_oldest() -> None:
    async def ask(port: int) -> None:
        silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(3)]
        assert await silent[0].receive_some() == b""
        head, body = await get(port, b"GET /metrics HTTP/1.0\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b'barnabas_metrics_connections_closed_total{limit="connections"} 2.0' in body
        assert await silent[1].receive_some() == b""
        await silent[2].send_all(b"GET /livez HTTP/1.0\r\n\r\n")
        assert (await silent[2].receive_some()).startswith(b"HTTP/1.1 200")
        for stream in silent:
            await stream.aclose()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics_http, "_CONNECTIONS_MAX", 2)
        await with_endpoint(fake_node(), ask)


@in_trio
async def test_http_endpoint_closes_a_client_that_sends_a_byte_at_a_time() -> None:
    async def ask(port: int) -> None:
        slow = await trio.open_tcp_stream("127.0.0.1", port)
        with suppress(trio.BrokenResourceError):
            while True:
                await slow.send_all(b"G")
                await trio.sleep(0.02)
        await slow.aclose()
        _, body = await get(port, b"GET /metrics HTTP/1.0\r\n\r\n")
        assert b'barnabas_metrics_connections_closed_total{limit="time"} 1.0' in body

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics_http, "_REQUEST_TIMEOUT_S", 0.3)
        await with_endpoint(fake_node(), ask)


def test_listeners_with_tls_and_sasl_have_metrics() -> None:
    tls = SimpleNamespace(
        certificate_left=timedelta(days=12, hours=12),
        failed_reloads=2,
        failures=SimpleNamespace(count=3),
    )
    listeners: Any = [SimpleNamespace(name="A", tls=None), SimpleNamespace(name="B", tls=tls)]
    logins: Any = {
        name: SimpleNamespace(failures=SimpleNamespace(count=count))
        for name, count in (("B", 4), ("C", 5))
    }
    found = {
        (sample.name, sample.labels["listener"]): sample.value
        for family in security_families(listeners, logins)
        for sample in family.samples
    }
    failures = "barnabas_authentication_failures_total"
    assert found == {
        ("barnabas_certificate_remaining_days", "B"): 12.5,
        ("barnabas_tls_failed_renewals_total", "B"): 2,
        (failures, "B"): 7,
        (failures, "C"): 5,
    }
    assert list(security_families(listeners[:1], {})) == []
