"""Properties of listeners and connections, observed on sockets."""

import os
import socket
import time
from pathlib import Path

import pytest

from barnabas.config import ConfigError, NodeConfig
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing import Node
from barnabas.testing.free_ports import free_ports
from tests.config.effects.observed import observes
from tests.config.effects.wire import Wire, alter, eventually, node_with


@observes("listeners")
def test_listeners_set_the_port_that_is_served() -> None:
    (port,) = free_ports(1)
    config = {"listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"}
    with Node(config=config):
        assert Wire(port).is_served()


@observes("advertised.listeners")
def test_advertised_listeners_are_what_metadata_answers() -> None:
    config = {"advertised.listeners": "PLAINTEXT://kafka.example.org:19092"}
    with node_with(config) as (_, wire):
        (broker,) = wire.ask(MetadataRequest(topics=[]), 12).brokers
        assert (broker.host, broker.port) == ("kafka.example.org", 19092)


@observes("listener.security.protocol.map")
def test_protocol_map_names_the_listeners_that_can_be_served() -> None:
    (port,) = free_ports(1)
    config = {
        "listeners": f"INSIDE://127.0.0.1:{port},PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    }
    with pytest.raises(ConfigError, match="INSIDE has no security protocol"):
        NodeConfig.load(None, config)
    config["listener.security.protocol.map"] = (
        "INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    )
    with Node(config=config):
        assert Wire(port).is_served()


@observes("controller.listener.names")
def test_controller_listener_does_not_serve_clients() -> None:
    (port,) = free_ports(1)
    config = {
        "listeners": f"OTHER://127.0.0.1:{port},PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
    }
    with Node(config=config):
        assert Wire(port).is_served()
    with Node(config={**config, "controller.listener.names": "CONTROLLER,OTHER"}):
        assert not Wire(port).is_served()


@observes("socket.send.buffer.bytes", "socket.receive.buffer.bytes")
def test_buffer_sizes_are_set_on_accepted_sockets() -> None:
    sizes: list[tuple[int, int]] = []
    for given in ("8192", "65536"):
        config = {"socket.send.buffer.bytes": given, "socket.receive.buffer.bytes": given}
        with node_with(config) as (node, wire):
            assert wire.is_served()
            assert node.server is not None
            (connection,) = node.server.transport.connections
            with socket.socket(fileno=os.dup(connection.fd)) as sock:
                sizes.append((sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
                              sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)))  # fmt: skip
    assert sizes == [(2 * 8192, 2 * 8192), (2 * 65536, 2 * 65536)]  # Linux doubles them


@observes("socket.listen.backlog.size")
@pytest.mark.skipif(not Path("/proc").exists(), reason="reads Linux' TCP_INFO")
def test_backlog_size_is_that_of_the_listening_socket() -> None:
    with Node(config={"socket.listen.backlog.size": "2048"}) as node:
        assert node.server is not None
        info = node.server.listeners[0].sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        somaxconn = int(Path("/proc/sys/net/core/somaxconn").read_text())
        assert int.from_bytes(info[28:32], "little") == min(2048, somaxconn)


@observes("socket.request.max.bytes")
def test_larger_request_closes_the_connection() -> None:
    with node_with({"socket.request.max.bytes": "200"}) as (_, wire):
        assert wire.is_served()
        names = [MetadataRequest.MetadataRequestTopic(name="t" * 200)]
        with pytest.raises((EOFError, ConnectionError)):
            wire.ask(MetadataRequest(topics=names), 9)


@observes("max.connections.per.ip")
def test_connection_above_the_limit_of_an_address_is_closed() -> None:
    with node_with({"max.connections.per.ip": "2"}) as (node, wire):
        second, third = Wire(node.port), Wire(node.port)
        assert wire.is_served()
        assert second.is_served()
        assert not third.is_served()


@observes("max.connections.per.ip.overrides")
def test_override_for_an_address_wins_over_the_limit() -> None:
    config = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:1"}
    with node_with(config) as (node, wire):
        assert wire.is_served()
        assert not Wire(node.port).is_served()


@observes("max.connections")
def test_connection_above_the_limit_waits_until_another_ends() -> None:
    with node_with({"max.connections": "1"}) as (node, wire):
        assert wire.is_served()
        waiting = Wire(node.port, timeout=0.2)
        with pytest.raises(TimeoutError):
            waiting.is_served()
        wire.socket.close()
        waiting.socket.settimeout(60)
        assert waiting.is_served()


def test_connection_above_the_limit_of_its_listener_waits_until_the_limit_rises() -> None:
    name = "listener.name.tight.max.connections"
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,TIGHT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,TIGHT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        name: "1",
    }
    with node_with(config) as (node, wire):
        assert node.server is not None
        assert name not in "".join(node.server.config.warnings)
        port = node.server.bound_port("TIGHT")
        first, waiting = Wire(port), Wire(port, timeout=0.2)
        assert first.is_served()
        with pytest.raises(TimeoutError):
            waiting.is_served()
        assert Wire(node.port).is_served()
        assert alter(wire, name, "2") == 0
        waiting.socket.settimeout(60)
        assert waiting.is_served()


def seconds_for(node: Node, connections: int) -> float:
    """Return the time in which a number of connections are served, one after the other."""
    begun = time.monotonic()
    for _ in range(connections):
        assert Wire(node.port).is_served()
    return time.monotonic() - begun


@observes("max.connection.creation.rate")
def test_connections_above_the_rate_are_accepted_late() -> None:
    with node_with({"max.connection.creation.rate": "1"}) as (node, _):
        assert seconds_for(node, 11) >= 0.9


@observes("max.connection.creation.rate", dynamic=True)
def test_changed_rate_holds_for_the_next_connections() -> None:
    with node_with({}) as (node, wire):
        assert alter(wire, "max.connection.creation.rate", "1") == 0
        assert seconds_for(node, 11) >= 0.9
        assert alter(wire, "max.connection.creation.rate", "100000") == 0
        assert seconds_for(node, 3) < 2.5


def test_rate_of_a_listener_can_be_changed() -> None:
    name = "listener.name.plaintext.max.connection.creation.rate"
    with node_with({name: "1"}) as (node, wire):
        assert node.server is not None
        assert name not in "".join(node.server.config.warnings)
        assert seconds_for(node, 11) >= 0.9
        assert alter(wire, name, "100000") == 0
        assert seconds_for(node, 3) < 2.5


@observes(
    "max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", dynamic=True
)
@pytest.mark.parametrize(
    ("name", "tight", "wide"),
    [
        ("max.connections", "1", "10"),
        ("max.connections.per.ip", "1", "10"),
        ("max.connections.per.ip.overrides", "127.0.0.1:1", "127.0.0.1:10"),
    ],
)
def test_changed_limit_of_connections_holds_for_new_connections(
    name: str, tight: str, wide: str
) -> None:
    with node_with({}) as (node, wire):
        assert alter(wire, name, tight) == 0
        assert eventually(lambda: not is_admitted(node))
        assert alter(wire, name, wide) == 0
        assert eventually(lambda: is_admitted(node))


def is_admitted(node: Node) -> bool:
    wire = Wire(node.port, timeout=0.1)
    try:
        return wire.is_served()
    except TimeoutError:
        return False


@observes("connections.max.idle.ms")
def test_idle_connection_is_closed() -> None:
    with node_with({"connections.max.idle.ms": "1000"}) as (node, _):
        wires: list[Wire] = []

        def is_served() -> bool:
            wires.append(Wire(node.port))
            return wires[-1].is_served()

        assert eventually(is_served)  # a busy machine may be later than the limit
        wire = wires[-1]
        wire.socket.settimeout(60)  # the default is 10 minutes
        assert wire.socket.recv(1) == b""
