"""Requests of simulated clients to the controller listeners of nodes that run the server's code."""

import logging
from collections.abc import Callable, Generator

import attrs
import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages_base import Message
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.quorum_invariants import InvariantError
from barnabas.testing.simulation.runner import prepare
from barnabas.testing.simulation.seed_options import NO_FEATURES, draw_options
from barnabas.testing.simulation.sim_node import SimNode
from barnabas.testing.simulation.world import Process

CALM_MS = 4_000


class Client:
    """A client with the outcomes of its requests, in the order of their arrival."""

    def __init__(self, seed: int) -> None:
        options = attrs.evolve(
            draw_options(seed, 1, NO_FEATURES),
            controllers=3,
            brokers=3,
            is_combined=True,
            spare_controllers=0,
            has_voter_upkeep=True,
        )
        self.cluster = prepare(seed, options=options, faults=[]).cluster
        self.world = self.cluster.world
        self.requests = self.cluster.requests
        self.nodes = list(self.cluster.nodes.values())
        self.process = Process(self.world, 20_000)
        self.process.start()
        self.outcomes: list[tuple[int, Message | Failure]] = []
        self._count = 0
        self.cluster.start()
        self.world.run(CALM_MS)

    @property
    def leader(self) -> SimNode:
        return next(node for node in self.nodes if node.is_leader)

    def ask(
        self,
        node: SimNode,
        request: Message,
        timeout_ms: int = 5_000,
        version_max: int | None = None,
    ) -> None:
        number = self._count
        self._count += 1

        def note(outcome: Message | Failure) -> None:
            self.outcomes.append((number, outcome))
            self.world.note(number, outcome)

        self.requests.ask(
            self.process,
            node.node_id,
            "controller",
            request,
            note,
            note,
            timeout_ms=timeout_ms,
            version_max=version_max,
        )

    def answers(self, node: SimNode, request: Message) -> Message | Failure:
        """Return the outcome of a request that has one within its time."""
        self.ask(node, request)
        self.world.run(6_000)
        return self.outcomes[-1][1]


def creation(name: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=4_000)


def description() -> DescribeQuorumRequest:
    request = DescribeQuorumRequest
    partition = request.PartitionData(partition_index=0)
    topic = request.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return request(topics=[topic])


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "barnabas")


@pytest.fixture
def client_of() -> Generator[Callable[[int], Client]]:
    made: list[Client] = []

    def make(seed: int) -> Client:
        made.append(Client(seed))
        return made[-1]

    yield make
    for each in made:
        each.cluster.close()


@pytest.fixture
def client(client_of: Callable[[int], Client]) -> Client:
    return client_of(1)


def test_request_gets_the_decoded_response(client: Client) -> None:
    response = client.answers(client.leader, creation("one"))

    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == ErrorCode.NONE


def test_callback_does_not_come_before_the_call_returns(client: Client) -> None:
    client.ask(client.leader, description())

    assert client.outcomes == []


def test_requests_arrive_and_are_answered_in_their_order(client: Client) -> None:
    for _ in range(20):
        client.ask(client.leader, creation("one"))
    client.world.run(1_000)

    codes = [
        each.topics[0].error_code
        for _, each in client.outcomes
        if isinstance(each, CreateTopicsResponse)
    ]
    assert [number for number, _ in client.outcomes] == list(range(20))
    assert codes == [ErrorCode.NONE] + 19 * [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_requests_of_one_purpose_share_a_connection(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[int] = []
    accept = client.cluster.streams.connect

    async def counted(process: Process, address: object) -> object:
        connections.append(process.node_id)
        return await accept(process, address)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(client.cluster.streams, "connect", counted)

    for _ in range(3):
        client.answers(client.leader, description())

    assert connections.count(client.process.node_id) == 1


def test_port_without_a_process_refuses(client: Client) -> None:
    node = client.nodes[0]
    node.process.kill()

    assert client.answers(node, description()) is Failure.REFUSED


def test_kill_resets_the_requests_without_a_response(client: Client) -> None:
    node = client.leader
    client.answers(node, description())
    node.process.pause(10_000)
    client.ask(node, creation("one"))
    client.ask(node, creation("two"))
    client.world.run(100)

    node.process.kill()
    client.world.run(100)

    assert client.outcomes[1:] == [(1, Failure.RESET), (2, Failure.RESET)]


def test_request_after_a_restart_uses_a_new_connection(client: Client) -> None:
    node = client.leader
    client.answers(node, description())
    node.process.kill()
    client.world.run(100)
    node.start()
    client.world.run(CALM_MS)

    assert isinstance(client.answers(node, description()), DescribeQuorumResponse)


@pytest.mark.parametrize("is_open", [True, False], ids=["open connection", "no connection"])
def test_cut_is_silent_until_the_time_is_up(client: Client, is_open: bool) -> None:
    node = client.leader
    if is_open:
        client.answers(node, description())
    for one, other in ((node.node_id, client.process.node_id), (client.process.node_id, 1)):
        client.cluster.network.cut(one, other)
        client.cluster.network.cut(other, one)

    client.ask(node, description(), timeout_ms=2_000)
    client.world.run(1_990)
    before = len(client.outcomes)
    client.world.run(20)

    assert before == int(is_open)
    assert client.outcomes[-1][1] is Failure.SILENT


def test_time_out_ends_the_other_requests_of_the_connection(client: Client) -> None:
    node = client.leader
    client.answers(node, description())
    node.process.pause(10_000)
    client.ask(node, description(), timeout_ms=1_000)
    client.ask(node, description(), timeout_ms=5_000)

    client.world.run(1_500)

    assert client.outcomes[1:] == [(1, Failure.SILENT), (2, Failure.SILENT)]


def test_answer_after_the_time_out_is_dropped(client: Client) -> None:
    node = client.leader
    node.process.pause(2_000)
    client.ask(node, description(), timeout_ms=1_000)

    client.world.run(10_000)

    assert client.outcomes == [(0, Failure.SILENT)]


def test_end_of_all_faults_ends_attempts_through_a_cut(client: Client) -> None:
    node = client.leader
    client.cluster.network.cut(client.process.node_id, node.node_id)
    client.ask(node, description(), timeout_ms=60_000)
    client.world.run(1_000)

    client.cluster.network.heal()
    client.requests.reset_damaged()
    client.world.run(10)

    assert client.outcomes == [(0, Failure.SILENT)]


def test_end_of_all_faults_resets_connections_to_nodes_without_power(client: Client) -> None:
    node = client.leader
    client.answers(node, description())
    node.process.pause(10_000)
    client.ask(node, description(), timeout_ms=60_000)
    client.world.run(100)
    node.lose_power()
    client.world.run(1_000)
    before = len(client.outcomes)

    client.cluster.heal()
    client.world.run(10)

    assert before == 1
    assert client.outcomes[1:] == [(1, Failure.RESET)]


def test_controller_with_another_port_is_found(client: Client) -> None:
    node = client.nodes[-1]  # of three voters, one may move
    first = client.cluster.streams.addresses_of(node.node_id)
    node.process.kill()
    client.world.run(100)
    node.start()
    client.world.run(CALM_MS)

    assert client.cluster.streams.addresses_of(node.node_id) != first
    assert isinstance(client.answers(node, description()), DescribeQuorumResponse)


def test_version_that_the_receiver_lacks_is_too_old(client: Client) -> None:
    client.ask(client.leader, FetchRequest(), version_max=3)
    client.world.run(1_000)

    assert client.outcomes == [(0, Failure.TOO_OLD)]


def test_version_max_caps_the_version(client: Client) -> None:
    client.ask(client.leader, description(), version_max=0)
    client.world.run(1_000)

    response = client.outcomes[0][1]
    assert isinstance(response, DescribeQuorumResponse)
    assert not response.nodes  # since version 2


def test_dead_sender_gets_no_callback(client: Client) -> None:
    client.ask(client.leader, description())
    client.world.run(1)
    client.process.kill()
    client.world.run(10_000)

    assert client.outcomes == []


def test_error_of_a_callback_ends_the_run(client: Client) -> None:
    def wrong(_: object) -> None:
        raise LookupError("of the callback")

    client.requests.ask(
        client.process, client.leader.node_id, "controller", description(), wrong, wrong
    )

    with pytest.raises(LookupError, match="of the callback"):
        client.world.run(1_000)


def test_error_that_no_fault_explains_ends_the_run(client: Client) -> None:
    without_listener = AddRaftVoterRequest(cluster_id=None, voter_id=9, timeout_ms=1_000)
    client.ask(client.leader, without_listener)

    with pytest.raises(InvariantError, match=r"^C2: node-\d:9093 answers \['INVALID_REQUEST'\]"):
        client.world.run(1_000)


def test_same_seed_has_the_same_trace(client_of: Callable[[int], Client]) -> None:
    def trace() -> tuple[int, int]:
        client = client_of(3)
        for number in range(30):
            client.ask(client.nodes[number % 3], creation(f"topic-{number % 7}"))
            client.world.run(number * 3)
        client.world.run(5_000)
        return client.world.trace, client.world.events

    assert trace() == trace()
