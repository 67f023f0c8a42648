"""Properties of this node's connections to other nodes, observed by relays between the nodes."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.config import NodeConfig
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.server.node.node import Node
from barnabas.testing.free_ports import free_ports
from tests.client.harness import eventually
from tests.config.effects.listener_relay import ListenerRelay
from tests.config.effects.observed import observes
from tests.config.effects.wire import Wire, coordinator
from tests.server.quorum_nodes import QuorumNodes

FETCH, WRITE_TXN_MARKERS, ENVELOPE = 1, 27, 58
ONE = {"transaction.state.log.num.partitions": "1", "transaction.state.log.replication.factor": "1"}
Start = Callable[[dict[str, str]], Awaitable[None]]


def run(
    directory: Path,
    body: Callable[[QuorumNodes, trio.Nursery, Start], Awaitable[None]],
) -> None:
    """Run `body` with the directories of a controller 1, and a function that starts nodes."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:

            async def start(properties: dict[str, str]) -> None:
                await nursery.start(Node(NodeConfig.load(None, properties)).run)

            with trio.fail_after(100):
                await body(QuorumNodes(directory, nursery, voter_ids=(1,)), nursery, start)
            nursery.cancel_scope.cancel()

    trio.run(main)


@observes("controller.socket.timeout.ms")
def test_silent_controller_is_connected_to_again_after_the_timeout(tmp_path: Path) -> None:
    async def attempts(
        timeout_ms: str, nodes: QuorumNodes, nursery: trio.Nursery, start: Start
    ) -> None:
        """Have broker 2 forward a request to controller 1, which does not answer it."""
        (hidden,) = free_ports(1)
        relay = ListenerRelay(hidden, kept=ENVELOPE)
        known = nodes.ports(1)[1]
        await nursery.start(relay.serve, known)
        controller = nodes.properties(1, "controller")
        controller["listeners"] = f"CONTROLLER://127.0.0.1:{hidden}"
        controller["advertised.listeners"] = f"CONTROLLER://127.0.0.1:{known}"
        await start(controller)
        await start(nodes.properties(2, "broker") | {"controller.socket.timeout.ms": timeout_ms})
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1)
        request = encode_request(1, "test", CreateTopicsRequest(topics=[topic]), 7)
        # The node forgets the request when the client closes.
        async with await trio.open_tcp_stream("127.0.0.1", nodes.ports(2)[0]) as client:
            await client.send_all(b"".join(map(bytes, request)))
            if timeout_ms == "150":
                await eventually(lambda: relay.requests[ENVELOPE] >= 3)
            else:
                await eventually(lambda: relay.requests[ENVELOPE] == 1)
                await trio.sleep(0.5)
                assert relay.requests[ENVELOPE] == 1

    for timeout_ms in ("150", "30000"):
        run(tmp_path / timeout_ms, partial(attempts, timeout_ms))


@observes("inter.broker.listener.name")
def test_requests_to_brokers_go_to_the_inter_broker_listener(tmp_path: Path) -> None:
    """Fetches of a follower, and markers of a coordinator."""
    protocols = "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"

    async def copy(name: str, nodes: QuorumNodes, nursery: trio.Nursery, start: Start) -> None:
        config = {
            "listener.security.protocol.map": protocols,
            "inter.broker.listener.name": name,
            **ONE,
        }
        inside, outer, inner = free_ports(3)
        first = nodes.properties(1, "broker,controller") | config
        first["listeners"] += f",INSIDE://127.0.0.1:{inside}"
        await start(first)
        wire = Wire(nodes.ports(1)[0])
        # While there is no other broker: the coordinator is broker 1.
        await trio.to_thread.run_sync(partial(coordinator, wire, "x", transactions=True))
        second = nodes.properties(2, "broker") | config
        relays = {"PLAINTEXT": ListenerRelay(nodes.ports(2)[0]), "INSIDE": ListenerRelay(inner)}
        second["listeners"] += f",INSIDE://127.0.0.1:{inner}"
        ports = dict(zip(relays, (outer, free_ports(1)[0]), strict=True))
        second["advertised.listeners"] = ",".join(
            f"{listener}://127.0.0.1:{port}" for listener, port in ports.items()
        )
        for listener, relay in relays.items():
            await nursery.start(relay.serve, ports[listener])
        await start(second)
        await trio.to_thread.run_sync(write_to_broker_2, f"127.0.0.1:{nodes.ports(1)[0]}")
        between_brokers = {FETCH, WRITE_TXN_MARKERS}
        await eventually(
            lambda: between_brokers <= {key for relay in relays.values() for key in relay.requests}
        )
        found = {each: between_brokers & relays[each].requests.keys() for each in relays}
        assert found == {each: between_brokers if each == name else set() for each in relays}
        wire.socket.close()

    for name in ("PLAINTEXT", "INSIDE"):
        run(tmp_path / name, partial(copy, name))


def write_to_broker_2(bootstrap: str) -> None:
    """Commit a transaction in a partition that broker 2 leads and broker 1 follows."""
    topic = NewTopic("t", 1, replica_assignment=[[2, 1]])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])["t"].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("t", "value")
    producer.commit_transaction(60)
