"""Quotas of clients in bytes a second: apis 48 and 49, Kafka's own tool, and throttled clients.

Each test has separate users or client ids; all clients are User:ANONYMOUS.
"""

import time

import pytest

from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from compat_tests import jars, wire
from compat_tests.client_quotas import (
    CONSUMER,
    OK,
    PRODUCER,
    Parts,
    Values,
    alter,
    describe,
    fetch_request,
    limit,
    produce_request,
    wait_for,
)

INVALID_REQUEST = 42

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


def test_throttled_produce_is_written_and_mutes_the_connection(
    bootstrap: str, topic: str, client_id: str
) -> None:
    limit(bootstrap, client_id, PRODUCER, 1000)
    frame = len(wire.request_frame(produce_request(topic, 11_000), 9, 1))
    with wire.Connection(bootstrap) as connection:
        begun = time.monotonic()
        answer = connection.call(produce_request(topic, 11_000), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        # Less by the time between the creation of the client's sensor and its first record.
        assert frame - 10_600 < answer.throttle_time_ms <= frame - 10_000
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
            # Less by the time since the first one.
            assert 2000 < answer.throttle_time_ms < 4500
        else:
            assert records > 7000


def test_produce_keeps_to_its_quota(bootstrap: str, topic: str, client_id: str) -> None:
    """After the burst of the first windows, the rate is that of the quota."""
    rate = 200_000
    limit(bootstrap, client_id, PRODUCER, rate)
    with wire.Connection(bootstrap) as connection:
        sent = 0
        begun = time.monotonic()
        while connection.call(produce_request(topic, 100_000), 9).throttle_time_ms == 0:
            sent += 1
        meanwhile = int((time.monotonic() - begun) * rate / 100_000)
        assert 18 <= sent <= 22 + meanwhile  # ten windows' worth
        begun = time.monotonic()
        for _ in range(10):
            connection.call(produce_request(topic, 100_000), 9)
        per_second = 1_000_000 / (time.monotonic() - begun)
    assert per_second < rate * 1.3
