"""Rates of new connections, as Kafka's `ConnectionQuotasTest`."""

from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from barnabas.cluster.metadata.client_quotas import CONNECTION_CREATION_RATE, QuotaKey
from barnabas.server.transport.connection_rates import ConnectionRates
from tests.server.test_connection import LIMITS

PLAIN: Any = SimpleNamespace(name="PLAINTEXT", kind="broker")
OTHER: Any = SimpleNamespace(name="OTHER", kind="broker")
CONTROLLER: Any = SimpleNamespace(name="CONTROLLER", kind="controller")
HOST = "10.0.0.1"


class Rates(ConnectionRates):
    """Rates with a clock that tests set."""

    def __init__(self) -> None:
        self.now_ms = 0
        super().__init__(11, 1000, lambda: self.now_ms)

    def limit(self, host: str | None, value: float) -> None:
        key: QuotaKey = ((("ip", host),), CONNECTION_CREATION_RATE)
        self.limit_addresses({key: value})


@pytest.fixture
def rates() -> Rates:
    return Rates()


def test_listener_above_its_rate_waits_until_it_is_within_it(rates: Rates) -> None:
    limits = attrs.evolve(LIMITS, listener_creation_rate_max={"PLAINTEXT": 10})
    assert [rates.delay_ms(PLAIN, limits) for _ in range(103)] == [0] * 100 + [100, 200, 300]
    assert rates.delay_ms(OTHER, limits) == 0
    assert rates.delays["PLAINTEXT"].number == 3
    assert rates.delays["PLAINTEXT"].total_ms == 600


def test_delay_is_at_most_one_window(rates: Rates) -> None:
    limits = attrs.evolve(LIMITS, creation_rate_max=1)
    assert max(rates.delay_ms(PLAIN, limits) for _ in range(100)) == 1000


def test_rate_of_zero_delays_each_connection_by_a_window(rates: Rates) -> None:
    limits = attrs.evolve(LIMITS, creation_rate_max=0)
    assert [rates.delay_ms(PLAIN, limits) for _ in range(2)] == [1000, 1000]


def test_listeners_of_a_kind_share_the_rate_of_the_node(rates: Rates) -> None:
    limits = attrs.evolve(LIMITS, creation_rate_max=10)
    for _ in range(50):
        assert rates.delay_ms(PLAIN, limits) == rates.delay_ms(OTHER, limits) == 0
    assert rates.delay_ms(PLAIN, limits) == 100
    assert rates.delay_ms(CONTROLLER, limits) == 0


def test_rate_of_the_node_does_not_concern_the_listener_of_brokers(rates: Rates) -> None:
    limits = attrs.evolve(LIMITS, creation_rate_max=1, protected_listener="PLAINTEXT")
    assert not any(rates.delay_ms(PLAIN, limits) for _ in range(100))
    assert rates.delay_ms(OTHER, limits) == 0


def test_address_above_its_rate_is_refused(rates: Rates) -> None:
    rates.limit(HOST, 2)
    for _ in range(20):
        rates.delay_ms(PLAIN, LIMITS)
        assert rates.refusal_ms(PLAIN, LIMITS, HOST) == 0
        assert rates.refusal_ms(PLAIN, LIMITS, "10.0.0.2") == 0
    rates.delay_ms(PLAIN, LIMITS)
    assert rates.refusal_ms(PLAIN, LIMITS, HOST) == 500
    assert rates.refusals["PLAINTEXT"].number == 1
    rates.now_ms = 11_000
    assert rates.refusal_ms(PLAIN, LIMITS, HOST) == 0


def test_refused_connection_counts_neither_for_its_listener_nor_for_the_node(rates: Rates) -> None:
    limits = attrs.evolve(
        LIMITS, creation_rate_max=10, listener_creation_rate_max={"PLAINTEXT": 10}
    )
    rates.limit(HOST, 1)
    for number in range(1000):
        assert rates.delay_ms(PLAIN, limits) == 0
        assert (rates.refusal_ms(PLAIN, limits, HOST) > 0) == (number >= 10)


def test_refused_connection_does_not_count_for_its_address(rates: Rates) -> None:
    rates.limit(HOST, 2)
    found: list[int] = []
    for _ in range(24):
        rates.delay_ms(PLAIN, LIMITS)
        found.append(rates.refusal_ms(PLAIN, LIMITS, HOST))
    assert found == [0] * 20 + [500] * 4


def test_named_address_comes_before_the_default(rates: Rates) -> None:
    key = CONNECTION_CREATION_RATE
    rates.limit_addresses({((("ip", HOST),), key): 100, ((("ip", None),), key): 1})
    rates.delay_ms(PLAIN, LIMITS)
    refused = {
        host: [rates.refusal_ms(PLAIN, LIMITS, host) > 0 for _ in range(11)]
        for host in (HOST, "10.0.0.2", "10.0.0.3")
    }
    above = [False] * 10 + [True]
    assert refused == {HOST: [False] * 11, "10.0.0.2": above, "10.0.0.3": above}


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:10.0.0.1", HOST),
        ("fe80::1", "fe80::1%eth0"),
    ],
)
def test_address_is_recognized_in_each_form(rates: Rates, name: str, host: str) -> None:
    rates.limit(name, 1)
    rates.delay_ms(PLAIN, LIMITS)
    assert [rates.refusal_ms(PLAIN, LIMITS, host) > 0 for _ in range(11)][-1]


def test_quota_of_a_host_name_limits_nothing(
    rates: Rates, caplog: pytest.LogCaptureFixture
) -> None:
    rates.limit("localhost", 1)
    assert rates.refusal_ms(PLAIN, LIMITS, "127.0.0.1") == 0
    assert "'localhost' is not an address" in caplog.text


def test_addresses_used_longest_ago_are_forgotten(
    rates: Rates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.server.transport.connection_rates._ADDRESSES_MAX", 2)
    rates.limit(None, 1)
    rates.delay_ms(PLAIN, LIMITS)
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.3"):
        rates.refusal_ms(PLAIN, LIMITS, host)
    assert list(rates._of_hosts) == ["10.0.0.1", "10.0.0.3"]
