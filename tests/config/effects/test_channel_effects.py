"""Properties of this node's connections to other nodes."""

import socket
from contextlib import suppress
from typing import Any

import trio

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.voters import LeaderAddress
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.testing import Node
from tests.config.effects.observed import observes


@observes("controller.socket.timeout.ms")
def test_silent_controller_is_connected_to_again_after_the_timeout() -> None:
    for timeout_ms, at_least, at_most in (("50", 3, 1000), ("30000", 1, 1)):
        with (
            Node(config={"controller.socket.timeout.ms": timeout_ms}) as node,
            socket.create_server(("127.0.0.1", 0)) as silent,
        ):
            server: Any = node.server
            endpoint = Endpoint("CONTROLLER", "127.0.0.1", silent.getsockname()[1])

            async def send(channel: Any = server.channel, to: Endpoint = endpoint) -> None:
                known, channel._leader = channel._leader, lambda: LeaderAddress(9, 1, to)
                with trio.move_on_after(1.0):
                    await channel.send(CreateTopicsRequest(), CreateTopicsResponse)
                channel._leader = known

            trio.from_thread.run(send, trio_token=node._token)
            silent.settimeout(0.05)
            connections = 0
            with suppress(TimeoutError):
                while True:
                    silent.accept()[0].close()
                    connections += 1
            assert at_least <= connections <= at_most


@observes("inter.broker.listener.name")
def test_requests_to_brokers_go_to_the_inter_broker_listener() -> None:
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
    }
    for name in ("PLAINTEXT", "INSIDE"):
        with Node(config=config | {"inter.broker.listener.name": name}) as node:
            server: Any = node.server

            async def send(brokers: Any = server.transactions._marker_brokers) -> None:
                await brokers.ask(1, WriteTxnMarkersRequest(), WriteTxnMarkersResponse)

            trio.from_thread.run(send, trio_token=node._token)
            used = {connection.listener_name for connection in server.transport.connections}
            assert used - {"CONTROLLER"} == {name}
