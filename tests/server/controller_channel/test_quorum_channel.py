"""The channel of a node that is not the controller: Envelopes, retries, changes of the leader."""

from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.voters import LeaderAddress
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.framing import parse_request_header
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from barnabas.security.principals import Principal
from barnabas.server.api.handlers.admin.forwarding_handler import forward
from barnabas.server.controller_channel import remote_controller
from barnabas.server.controller_channel.quorum_channel import QuorumControllerChannel
from barnabas.testing import Node
from tests.client.harness import FakeBroker, Handler, eventually

THIS_NODE, CONTROLLER = 2, 1


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def leader_at(port: int, epoch: int = 1) -> LeaderAddress:
    return LeaderAddress(CONTROLLER, epoch, Endpoint("CONTROLLER", "127.0.0.1", port, 0))


def controller_port(node: Node) -> int:
    assert node.server is not None
    return node.server.bound_port("CONTROLLER")


class NoController:
    """The local end of a node that is not the controller."""

    async def send(self, *_: Any, **__: Any) -> Any:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "no")


class Quorum:
    """The leader as the channel sees it; the test changes it."""

    def __init__(self, leader: LeaderAddress | None) -> None:
        self.leader = leader
        self.asked = 0

    def leader_address(self) -> LeaderAddress | None:
        self.asked += 1
        return self.leader


def run(
    quorum: Quorum,
    test: Callable[[QuorumControllerChannel], Awaitable[None]],
    *,
    local: Any = None,
    timeout_s: float = 20.0,
) -> None:
    async def main() -> None:
        channel = QuorumControllerChannel(
            THIS_NODE,
            local or NoController(),
            quorum.leader_address,
            request_timeout_s=30.0,
            timeout_s=timeout_s,
        )
        with trio.fail_after(100):
            async with trio.open_nursery() as nursery:
                await nursery.start(channel.run)
                await test(channel)
                nursery.cancel_scope.cancel()

    trio.run(main)


def client(channel: Any, version: int, api_key: int = 19) -> Any:
    closed: list[bool] = []
    peer = SimpleNamespace(
        principal=Principal("User", "alice"),
        client_host="10.0.0.7",
        listener_name="PLAINTEXT",
        closed=closed,
        close=lambda: closed.append(True),
    )
    return SimpleNamespace(
        connection=peer,
        version=version,
        api_key=api_key,
        client_id="c",
        correlation_id=77,
        services=SimpleNamespace(channel=channel),
    )


def create(name: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic])


@pytest.mark.parametrize("version", [2, 7])
def test_forwarded_request_is_answered_in_the_clients_version(node: Node, version: int) -> None:
    async def test(channel: QuorumControllerChannel) -> None:
        response = await channel.send(
            create(f"f{version}"), CreateTopicsResponse, on_behalf_of=client(channel, version)
        )
        assert [topic.error_code for topic in response.topics] == [0]
        assert (response.topics[0].num_partitions == 1) is (version == 7)
        assert channel.controller_versions() is not None

    run(Quorum(leader_at(controller_port(node))), test)


def test_own_request_reaches_the_controller_of_another_node(node: Node) -> None:
    async def test(channel: QuorumControllerChannel) -> None:
        request = AllocateProducerIdsRequest(broker_id=9, broker_epoch=1)
        response = await channel.send(request, AllocateProducerIdsResponse)
        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
        heartbeat = BrokerHeartbeatRequest(broker_id=9)
        beat = await channel.send(heartbeat, BrokerHeartbeatResponse)
        assert beat.error_code

    run(Quorum(leader_at(controller_port(node))), test)


def test_request_that_the_controllers_version_cannot_carry_is_refused(node: Node) -> None:
    """A value that does not fit, and a version that is not served."""

    async def test(channel: QuorumControllerChannel) -> None:
        too_long = create("wide")
        too_long.timeout_ms = 1 << 40  # no int32
        for version, request in ((7, too_long), (1, create("old"))):
            with pytest.raises(KafkaError) as raised:
                await channel.send(request, CreateTopicsResponse, version=version)
            assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION

    run(Quorum(leader_at(controller_port(node))), test)


def test_send_without_a_leader_waits_for_one(node: Node) -> None:
    quorum = Quorum(None)

    async def test(channel: QuorumControllerChannel) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.send, create("late"), CreateTopicsResponse)
            await trio.testing.wait_all_tasks_blocked()
            asked = quorum.asked
            quorum.leader = leader_at(controller_port(node))
            channel.follow_leader()
        assert asked == 1

    run(quorum, test)


def test_send_to_a_refusing_address_finds_the_next_leader_at_once(node: Node) -> None:
    quorum = Quorum(leader_at(1))
    times: list[float] = []

    async def test(channel: QuorumControllerChannel) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.send, create("moved"), CreateTopicsResponse)
            await trio.sleep(0.1)
            quorum.leader = leader_at(controller_port(node), epoch=2)
            started = trio.current_time()
            channel.follow_leader()
        times.append(trio.current_time() - started)

    run(quorum, test)
    assert times[0] < 3  # the backoff is 50 ms


def test_request_to_a_silent_leader_is_sent_to_its_successor(node: Node) -> None:
    """A stopped process accepts connections and never answers."""

    async def test(channel: QuorumControllerChannel) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        quorum.leader = leader_at(listeners[0].socket.getsockname()[1])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.send, create("silent"), CreateTopicsResponse)
            await trio.sleep(0.1)
            quorum.leader = leader_at(controller_port(node), epoch=2)
            channel.follow_leader()
        await listeners[0].aclose()

    quorum = Quorum(None)
    run(quorum, test)


def test_deposed_controller_is_left(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    server = node.server
    assert server is not None
    answers = 0

    async def refuse(*_: Any) -> Any:
        nonlocal answers
        answers += 1
        if answers == 3:
            monkeypatch.undo()
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "deposed")

    async def test(channel: QuorumControllerChannel) -> None:
        monkeypatch.setattr(server.quorum, "handle", refuse)
        context = client(channel, 7)
        response = await channel.send(create("dep"), CreateTopicsResponse, on_behalf_of=context)
        assert [topic.error_code for topic in response.topics] == [0]
        assert answers == 3

    run(Quorum(leader_at(controller_port(node))), test)


def test_describe_quorum_of_a_follower_waits_for_the_leader(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.cluster.quorum.raft import RaftCore

    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    request = DescribeQuorumRequest(topics=[topic])

    async def test(channel: QuorumControllerChannel) -> None:
        context = client(channel, 2, api_key=55)
        monkeypatch.setattr(RaftCore, "is_leader", property(lambda _: False))
        with trio.move_on_after(0.2) as scope:
            await channel.send(request, DescribeQuorumResponse, on_behalf_of=context)
        assert scope.cancelled_caught
        monkeypatch.undo()
        response = await channel.send(request, DescribeQuorumResponse, on_behalf_of=context)
        assert response.topics[0].partitions[0].error_code == 0

    run(Quorum(leader_at(controller_port(node))), test)


def test_send_gives_up_when_its_time_is_over() -> None:
    async def test(channel: QuorumControllerChannel) -> None:
        with pytest.raises(KafkaError) as raised:
            await channel.send(create("t"), CreateTopicsResponse)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT

    run(Quorum(None), test, timeout_s=0.2)
    run(Quorum(leader_at(1)), test, timeout_s=0.2)


def test_send_uses_the_local_end_while_this_node_leads() -> None:
    class Local:
        async def send(self, *_: Any, **__: Any) -> Any:
            return CreateTopicsResponse()

    async def test(channel: QuorumControllerChannel) -> None:
        assert await channel.send(create("t"), CreateTopicsResponse) == CreateTopicsResponse()
        assert channel.controller_versions() is None

    own = LeaderAddress(THIS_NODE, 1, Endpoint("CONTROLLER", "127.0.0.1", 1, 0))
    run(Quorum(own), test, local=Local())


def test_client_whose_version_the_controller_does_not_serve_is_disconnected(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = node.server
    assert server is not None
    dispatcher = server.dispatchers["controller"]
    route = dispatcher._route

    def older(frame: bytearray) -> Any:
        from barnabas.protocol.errors import ProtocolError

        if frame[1] == 19:
            raise ProtocolError("CreateTopics v7 is not served")
        return route(frame)

    async def test(channel: QuorumControllerChannel) -> None:
        dispatcher.routes.clear()
        monkeypatch.setattr(dispatcher, "_route", older)
        context = client(channel, 7)
        assert await forward(context, create("t")) is None
        assert context.connection.closed == [True]

    run(Quorum(leader_at(controller_port(node))), test)


def test_channel_leaves_a_connection_on_which_no_heartbeat_is_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a cut of the network that has healed: only a new connection gets answers."""
    monkeypatch.setattr(remote_controller, "SILENT_S", 0.3)
    broker = FakeBroker(lambda request, _: answer(request))

    def answer(request: Any) -> Any:
        is_heartbeat = isinstance(request, BrokerHeartbeatRequest)
        return BrokerHeartbeatResponse() if is_heartbeat and broker.connections > 1 else None

    quorum = Quorum(None)

    async def test(channel: QuorumControllerChannel) -> None:
        async with trio.open_nursery() as nursery:
            address = await nursery.start(broker.serve)
            quorum.leader = leader_at(address.port)
            for _ in range(20):
                with trio.move_on_after(0.1) as scope:
                    await channel.send(BrokerHeartbeatRequest(), BrokerHeartbeatResponse)
                if not scope.cancelled_caught:
                    break
            assert broker.connections == 2
            assert channel.silences == 1
            quorum.leader = None
            channel.follow_leader()
            assert channel.silences == 1  # the count of a metric, which never falls
            nursery.cancel_scope.cancel()

    run(quorum, test)
    assert "the controller does not answer, connecting again address=127.0.0.1" in caplog.text


class SlowController(FakeBroker):
    """A controller that answers CreateTopics once `is_created` is set."""

    def __init__(self, handler: Handler) -> None:
        super().__init__(handler)
        self.asked_to_create = 0
        self.is_created = trio.Event()

    async def _answer(self, stream: trio.abc.Stream, frame: bytes) -> bool:
        header, _ = parse_request_header(frame)
        if header.api_key == CreateTopicsRequest.API_KEY:
            self.asked_to_create += 1
            await self.is_created.wait()
        return await super()._answer(stream, frame)


def test_request_that_waits_is_answered_on_the_connection_that_the_channel_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sent again, a CreateTopics may find its own topic. Further requests do not wait for it."""
    monkeypatch.setattr(remote_controller, "SILENT_S", 0.3)
    created: list[CreateTopicsResponse] = []

    def answer(request: Any, _version: int) -> Any:
        if isinstance(request, CreateTopicsRequest):
            return CreateTopicsResponse()
        if isinstance(request, AllocateProducerIdsRequest):
            return AllocateProducerIdsResponse()
        return None

    broker, quorum = SlowController(answer), Quorum(None)

    async def test(channel: QuorumControllerChannel) -> None:
        async def create_slowly() -> None:
            created.append(await channel.send(create("slow"), CreateTopicsResponse))

        async with trio.open_nursery() as nursery:
            address = await nursery.start(broker.serve)
            quorum.leader = leader_at(address.port)
            nursery.start_soon(create_slowly)
            await eventually(lambda: broker.asked_to_create == 1)
            while not channel.silences:
                with trio.move_on_after(0.1):
                    await channel.send(BrokerHeartbeatRequest(), BrokerHeartbeatResponse)
            await channel.send(AllocateProducerIdsRequest(), AllocateProducerIdsResponse)
            assert created == []
            broker.is_created.set()
            await eventually(lambda: bool(created))
            assert broker.asked_to_create == 1
            nursery.cancel_scope.cancel()

    run(quorum, test)
