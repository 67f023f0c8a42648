"""Quotas of clients in bytes a second: apis 48 and 49, Kafka's own tool, and throttled clients.

Each test has separate users or client ids; all clients are User:ANONYMOUS.
"""

import time
from typing import Any

import pytest

from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.testing.batches import batch
from compat_tests import jars, wire

INVALID_REQUEST, UNSUPPORTED_VERSION = 42, 35
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
Parts = tuple[tuple[str, str | None], ...]
Values = tuple[tuple[str, float | None], ...]


def alter(bootstrap: str, *changes: tuple[Parts, Values], validate_only: bool = False) -> Any:
    """Return the error code and message of each entity."""
    data = AlterClientQuotasRequest
    entries = [
        data.EntryData(
            entity=[data.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
            ops=[
                data.OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in values
            ],
        )
        for parts, values in changes
    ]
    answer = wire.call(bootstrap, data(entries=entries, validate_only=validate_only), 1)
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): (
            each.error_code,
            each.error_message,
        )
        for each in answer.entries
    }


def describe(
    bootstrap: str, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[Parts, dict[str, float]]:
    part = DescribeClientQuotasRequest.ComponentData
    request = DescribeClientQuotasRequest(
        components=[part(entity_type=t, match_type=m, match=x) for t, m, x in components],
        strict=strict,
    )
    answer = wire.call(bootstrap, request, 1)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


def wait_for(bootstrap: str, user: str, quotas: dict[str, float]) -> None:
    """Wait until the broker has the quotas of a user, as it applies metadata a moment later."""
    deadline = time.monotonic() + 30
    while describe(bootstrap, ("user", 0, user), strict=True).get((("user", user),), {}) != quotas:
        assert time.monotonic() < deadline
        time.sleep(0.05)


OK = (0, None)
REFUSALS: list[tuple[Parts, Values, str]] = [
    ((("user", "u"),), (("bogus", 5.0),), "Invalid configuration key bogus"),
    ((("user", "u"),), ((PRODUCER, -1.0),), f"Quota {PRODUCER} must be greater than 0"),
    ((("user", "u"),), ((PRODUCER, 0.0),), f"Quota {PRODUCER} must be greater than 0"),
    ((("user", "u"),), ((PRODUCER, 1.5),), f"{PRODUCER} cannot be a fractional value."),
    ((("user", "u"),), ((PRODUCER, 1.9999999),), f"{PRODUCER} cannot be a fractional value."),
    (
        (("user", "u"),),
        ((PRODUCER, 1e300),),
        f"Proposed value for {PRODUCER} is too large for a LONG.",
    ),
    ((("ip", "10.0.0.1"),), ((PRODUCER, 5.0),), f"Invalid configuration key {PRODUCER}"),
    ((), ((PRODUCER, 5.0),), "Invalid empty client quota entity"),
    ((("group", "g"),), ((PRODUCER, 5.0),), "Unhandled client quota entity type: group"),
    ((("user", ""),), ((PRODUCER, 5.0),), "Empty user not supported"),
    (
        (("user", "u"), ("ip", "10.0.0.1")),
        ((PRODUCER, 5.0),),
        "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
    ),
    (
        (("client-id", "c"), ("user", "u")),
        ((PRODUCER, 5.0), (PRODUCER, 6.0)),
        "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=c, user=u})",
    ),
]


@pytest.mark.parametrize(("parts", "values", "message"), REFUSALS)
def test_invalid_change_is_refused(
    bootstrap: str, parts: Parts, values: Values, message: str
) -> None:
    assert alter(bootstrap, (parts, values)) == {parts: (INVALID_REQUEST, message)}


def test_quotas_are_set_described_and_removed(bootstrap: str) -> None:
    one: Parts = (("user", "q-one"),)
    both: Parts = (("client-id", None), ("user", "q-one"))
    bad: Parts = (("user", "q-bad"),)
    changes = (one, ((PRODUCER, 1e6),)), (both, ((CONSUMER, 2e6),)), (bad, (("bogus", 1.0),))
    refused = (INVALID_REQUEST, "Invalid configuration key bogus")
    assert alter(bootstrap, *changes) == {one: OK, both: OK, bad: refused}
    wait_for(bootstrap, "q-one", {PRODUCER: 1e6})
    user = ("user", 0, "q-one")
    assert describe(bootstrap, user) == {one: {PRODUCER: 1e6}, both: {CONSUMER: 2e6}}
    assert describe(bootstrap, user, ("client-id", 1, None)) == {both: {CONSUMER: 2e6}}
    assert describe(bootstrap, user, ("client-id", 2, None)) == {both: {CONSUMER: 2e6}}
    assert describe(bootstrap, user, ("client-id", 0, "x")) == {}
    assert describe(bootstrap, ("user", 2, None), strict=True)[one] == {PRODUCER: 1e6}
    assert both not in describe(bootstrap, ("user", 2, None), strict=True)
    assert describe(bootstrap, strict=True) == {}
    assert {one, both} <= describe(bootstrap).keys()
    alter(bootstrap, (one, ((PRODUCER, 3e6),)), validate_only=True)
    alter(bootstrap, (one, ((PRODUCER, None), ("bogus", None))), (both, ((CONSUMER, None),)))
    wait_for(bootstrap, "q-one", {})
    assert describe(bootstrap, user) == {}


@pytest.mark.barnabas_only
@pytest.mark.parametrize("key", ["request_percentage", "controller_mutation_rate"])
def test_quota_that_is_not_enforced_is_refused(bootstrap: str, key: str) -> None:
    parts: Parts = (("user", "u"),)
    code, message = alter(bootstrap, (parts, ((key, 5.0),)))[parts]
    assert code == UNSUPPORTED_VERSION
    assert message.startswith(f"{key} is not enforced")


@jars.needed
def test_kafka_configs_sets_shows_and_removes_quotas(bootstrap: str) -> None:
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap)
    entity = ("--entity-type", "users", "--entity-name", "q-tool")
    pair = (*entity, "--entity-type", "clients", "--entity-default")
    jars.java(*tool, "--alter", *entity, "--add-config", f"{PRODUCER}=1024,{CONSUMER}=2048")
    jars.java(*tool, "--alter", *pair, "--add-config", f"{PRODUCER}=4096")
    wait_for(bootstrap, "q-tool", {PRODUCER: 1024.0, CONSUMER: 2048.0})
    shown = jars.java(
        *tool, "--describe", "--entity-type", "users", "--entity-name", "q-tool"
    ).stdout
    assert "user-principal 'q-tool'" in shown
    assert f"{PRODUCER}=1024.0" in shown
    jars.java(*tool, "--alter", *entity, "--delete-config", f"{PRODUCER},{CONSUMER}")
    jars.java(*tool, "--alter", *pair, "--delete-config", PRODUCER)
    wait_for(bootstrap, "q-tool", {})


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"quotas-{time.time_ns()}"
    asked = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer = wire.call(bootstrap, CreateTopicsRequest(topics=[asked], timeout_ms=30_000), 5)
    assert answer.topics[0].error_code == 0
    return name


@pytest.fixture
def client_id(monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"client-{time.time_ns()}"
    monkeypatch.setattr(wire, "CLIENT_ID", name)
    return name


def limit(bootstrap: str, client_id: str, key: str, value: float) -> None:
    parts: Parts = (("client-id", client_id),)
    assert alter(bootstrap, (parts, ((key, value),))) == {parts: OK}
    deadline = time.monotonic() + 30
    while describe(bootstrap, ("client-id", 0, client_id)) != {parts: {key: value}}:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)  # Kafka changes its meters after its image


def produce_request(topic: str, size: int) -> ProduceRequest:
    now_ms = int(time.time() * 1000)
    partition = ProduceRequest.PartitionProduceData(
        index=0, records=batch(b"x" * size, timestamps=[now_ms])
    )
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])


def fetch_request(topic: str) -> FetchRequest:
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
    )


def test_throttled_produce_is_written_and_mutes_the_connection(
    bootstrap: str, topic: str, client_id: str
) -> None:
    limit(bootstrap, client_id, PRODUCER, 1000)
    frame = len(wire.request_frame(produce_request(topic, 11_000), 9, 1))
    with wire.Connection(bootstrap) as connection:
        begun = time.monotonic()
        answer = connection.call(produce_request(topic, 11_000), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms == frame - 10_000
        connection.call(fetch_request(topic), 12)
        waited_ms = (time.monotonic() - begun) * 1000
        assert answer.throttle_time_ms - 100 < waited_ms < answer.throttle_time_ms + 20_000


def test_throttled_fetch_is_empty(bootstrap: str, topic: str, client_id: str) -> None:
    wire.call(bootstrap, produce_request(topic, 7000), 9)
    limit(bootstrap, client_id, CONSUMER, 1000)
    for is_throttled in (False, True, True):
        answer = wire.call(bootstrap, fetch_request(topic), 12)
        records = sum(
            len(each.records or b"") for found in answer.responses for each in found.partitions
        )
        assert (answer.throttle_time_ms > 0) == is_throttled
        if is_throttled:
            assert answer.responses == []
            assert 3500 < answer.throttle_time_ms < 4500
        else:
            assert records > 7000


def test_produce_keeps_to_its_quota(bootstrap: str, topic: str, client_id: str) -> None:
    """After the burst of the first windows, the rate is that of the quota."""
    rate = 200_000
    limit(bootstrap, client_id, PRODUCER, rate)
    with wire.Connection(bootstrap) as connection:
        sent = 0
        while connection.call(produce_request(topic, 100_000), 9).throttle_time_ms == 0:
            sent += 1
        assert sent in {18, 19, 20, 21, 22}  # ten windows' worth
        begun = time.monotonic()
        for _ in range(10):
            connection.call(produce_request(topic, 100_000), 9)
        per_second = 1_000_000 / (time.monotonic() - begun)
    assert per_second < rate * 1.3
