"""Rates of new connections: of a server, of a listener, and from an address."""

import time
from collections.abc import Callable, Iterator

import pytest

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.testing.free_ports import free_ports
from compat_tests import jars, wire
from compat_tests.client_quotas import OK, Parts, alter, describe
from compat_tests.servers import KINDS, ServerProcess

RATE = "connection_creation_rate"
LIMIT = "max.connection.creation.rate"
INVALID_REQUEST = 42
_CLUSTER_WIDE = ""


def is_served(bootstrap: str, source: str = "127.0.0.1") -> bool:
    """Connect and send a request; return False when the server closes without a response."""
    try:
        with wire.Connection(bootstrap, source=source) as connection:
            connection.call(ApiVersionsRequest(), 0)
    except (EOFError, ConnectionError):
        return False
    return True


def seconds_for(bootstrap: str, connections: int) -> float:
    """Return the time in which a number of connections are served, one after the other."""
    begun = time.monotonic()
    for _ in range(connections):
        assert is_served(bootstrap)
    return time.monotonic() - begun


def limit_address(bootstrap: str, host: str | None, value: float | None) -> None:
    """Set or remove the quota of an address, and wait until the server applies it."""
    parts: Parts = (("ip", host),)
    assert alter(bootstrap, (parts, ((RATE, value),))) == {parts: OK}
    wanted = {} if value is None else {parts: {RATE: value}}
    deadline = time.monotonic() + 120
    match = ("ip", 1, None) if host is None else ("ip", 0, host)
    while describe(bootstrap, match) != wanted:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)  # Kafka changes its limits after its image


@pytest.mark.parametrize("host", ["127.0.0.9", None])
def test_address_above_its_rate_is_disconnected_after_a_delay(
    bootstrap: str, host: str | None
) -> None:
    source = host or "127.0.0.10"
    limit_address(bootstrap, host, 2)
    try:
        served = 0
        while is_served(bootstrap, source):
            served += 1
            assert served < 40
        assert 20 <= served <= 24  # what ten windows allow
        begun = time.monotonic()
        refused = sum(not is_served(bootstrap, source) for _ in range(3))
        assert refused
        assert time.monotonic() - begun > 0.2
    finally:
        limit_address(bootstrap, host, None)
    assert is_served(bootstrap, source)


def test_rate_of_an_address_does_not_concern_others(bootstrap: str) -> None:
    limit_address(bootstrap, "127.0.0.11", 1)
    try:
        assert seconds_for(bootstrap, 30) < 10
    finally:
        limit_address(bootstrap, "127.0.0.11", None)


@pytest.mark.parametrize(
    ("parts", "key", "value", "message"),
    [
        (
            (("ip", "no such host"),),
            RATE,
            5.0,
            "no such host is not a valid IP or resolvable host.",
        ),
        ((("ip", "10.0.0.1"),), RATE, 0.0, f"Quota {RATE} must be greater than 0"),
        ((("ip", "10.0.0.1"),), RATE, 1.5, f"{RATE} cannot be a fractional value."),
        ((("ip", "10.0.0.1"),), RATE, 3e9, f"Proposed value for {RATE} is too large for an INT."),
        ((("ip", ""),), RATE, 5.0, "Empty ip not supported"),
        ((("user", "u"),), RATE, 5.0, f"Invalid configuration key {RATE}"),
    ],
)
def test_invalid_quota_of_an_address_is_refused(
    bootstrap: str, parts: Parts, key: str, value: float, message: str
) -> None:
    assert alter(bootstrap, (parts, ((key, value),))) == {parts: (INVALID_REQUEST, message)}


@jars.needed
def test_kafka_configs_sets_shows_and_removes_quotas_of_addresses(bootstrap: str) -> None:
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap)
    address = ("--entity-type", "ips", "--entity-name", "10.1.2.3")
    default = ("--entity-type", "ips", "--entity-default")
    jars.java(*tool, "--alter", *address, "--add-config", f"{RATE}=7")
    jars.java(*tool, "--alter", *default, "--add-config", f"{RATE}=100000")
    shown = jars.java(*tool, "--describe", *address).stdout
    assert "ip '10.1.2.3'" in shown
    assert f"{RATE}=7.0" in shown
    assert f"{RATE}=100000.0" in jars.java(*tool, "--describe", *default).stdout
    jars.java(*tool, "--alter", *address, "--delete-config", RATE)
    jars.java(*tool, "--alter", *default, "--delete-config", RATE)
    assert describe(bootstrap, ("ip", 2, None)) == {}


def alter_broker(bootstrap: str, name: str, value: str, broker: str = _CLUSTER_WIDE) -> None:
    request = IncrementalAlterConfigsRequest
    change = request.AlterableConfig(name=name, config_operation=0, value=value)
    resource = request.AlterConfigsResource(resource_type=4, resource_name=broker, configs=[change])
    answer = wire.call(bootstrap, request(resources=[resource], validate_only=False), 1)
    assert [each.error_code for each in answer.responses] == [0], answer.responses
    time.sleep(1)


def test_server_accepts_connections_at_its_rate(start_server: Callable[..., ServerProcess]) -> None:
    bootstrap = start_server({LIMIT: "5"}).bootstrap
    assert seconds_for(bootstrap, 60) > 1
    assert seconds_for(bootstrap, 4) > 1
    alter_broker(bootstrap, LIMIT, "100000")
    assert seconds_for(bootstrap, 30) < 3


def test_listener_accepts_connections_at_its_rate(
    start_server: Callable[..., ServerProcess],
) -> None:
    bootstrap = start_server({f"listener.name.plaintext.{LIMIT}": "5"}).bootstrap
    assert seconds_for(bootstrap, 60) > 1
    alter_broker(bootstrap, f"listener.name.plaintext.{LIMIT}", "100000", "1")
    assert seconds_for(bootstrap, 30) < 3


@pytest.mark.parametrize("broker_id", [_CLUSTER_WIDE, "1"])
@pytest.mark.parametrize("name", [LIMIT, "max.connections"])
@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_limit_without_any_connection_is_refused(
    bootstrap: str, prefix: str, name: str, broker_id: str
) -> None:
    change = IncrementalAlterConfigsRequest.AlterableConfig(
        name=prefix + name, config_operation=0, value="0"
    )
    broker = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=4, resource_name=broker_id, configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[broker], validate_only=True)
    (result,) = wire.call(bootstrap, request, 1).responses
    assert result.error_code == INVALID_REQUEST
    assert "Invalid" in result.error_message


@pytest.fixture
def inner_and_outer(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The addresses of a broker's listeners for brokers and for clients: it takes two clients."""
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server with its own listeners")
    process = KINDS[request.config.getoption("--server")]()
    (port,) = free_ports(1)
    clients = f"PLAINTEXT://{process.bootstrap},OUTER://127.0.0.1:{port}"
    process.properties |= {
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{process.controller_port}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,OUTER:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "max.connections": "2",
        "num.network.threads": "1",  # in Kafka each thread closes one
    }
    try:
        process.start()
        yield process.bootstrap, f"127.0.0.1:{port}"
    finally:
        process.close()


def test_connection_of_a_broker_closes_the_one_that_was_used_longest_ago(
    inner_and_outer: tuple[str, str],
) -> None:
    inner, outer = inner_and_outer
    with wire.Connection(outer) as first, wire.Connection(outer) as second:
        for connection in (first, second, first):
            connection.call(ApiVersionsRequest(), 0)
        with wire.Connection(inner) as broker:
            broker.call(ApiVersionsRequest(), 0)
            assert second.closes_silently()
            first.call(ApiVersionsRequest(), 0)
            broker.call(ApiVersionsRequest(), 0)
            with wire.Connection(outer) as waiting:
                waiting.send(ApiVersionsRequest(), 0)
                first.close()
                assert waiting.receive(ApiVersionsRequest.API_KEY, 0, 1).error_code == 0
