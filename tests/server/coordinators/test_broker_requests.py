"""Markers and verifications that travel to other brokers."""

from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from barnabas.cluster.metadata.image import Endpoint
from barnabas.coordinator.transactions.pending_markers import MarkersAnswered, SendMarkers
from barnabas.coordinator.transactions.verification_batches import (
    Verification,
    outcomes_of_verification,
    verification_request,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.server.api.handlers.transactions.transaction_handlers import add_partitions_to_txn
from barnabas.server.coordinators.broker_requests import BrokerRequests
from barnabas.server.coordinators.transactions.marker_sender import MarkerSender
from barnabas.server.coordinators.transactions.verification_client import VerificationClient
from barnabas.server.coordinators.transactions.verification_guards import Guards
from barnabas.testing import Node
from tests.client.harness import FakeBroker, eventually
from tests.server.coordinators.coordinator_world import Asked, run

HERE, OTHER, THIRD, NOBODY = 1, 2, 3, -1
NONE = ErrorCode.NONE
NETWORK = ErrorCode.NETWORK_EXCEPTION


class Image:
    """Leaders by partition; a partition without an entry is deleted."""

    def __init__(self, **leaders: int) -> None:
        self.leaders = leaders

    def partition(self, topic: str, _index: int) -> Any:
        leader = self.leaders.get(topic)
        return None if leader is None else SimpleNamespace(leader=leader)

    def topic_config(self, _topic: str) -> dict[str, str]:
        return {}


class Brokers:
    """The other brokers: each request waits for `answer`, or for an error."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.reachable = {OTHER, THIRD}
        self.requests: list[tuple[int, Any]] = []
        self.answers: list[Any] = []
        self.answered = trio.Event()

    def start_soon(self, task: Callable[[int], Awaitable[None]], broker_id: int) -> bool:
        self.nursery.start_soon(task, broker_id)
        return True

    def is_reachable(self, broker_id: int) -> bool:
        return broker_id in self.reachable

    def follow_metadata(self) -> None:
        pass

    async def ask(self, broker_id: int, request: Any, _type: Any) -> Any:
        self.requests.append((broker_id, request))
        while not self.answers:
            await self.answered.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer(request)

    def answer(self, answer: Any) -> None:
        self.answers.append(answer)
        self.answered.set()
        self.answered = trio.Event()


def all_with(code: ErrorCode) -> Callable[[WriteTxnMarkersRequest], WriteTxnMarkersResponse]:
    """Return a broker that gives every marker the same outcome."""

    def respond(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        response = WriteTxnMarkersResponse
        return response(
            markers=[
                response.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        response.WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                response.WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=code
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    return respond


class Owner:
    """The coordinator partition that sends markers and takes their outcomes."""

    def __init__(self) -> None:
        self.is_loaded = True
        self.leader_epoch = 5
        self.outcomes: dict[str, ErrorCode] = {}

    def markers_answered(self, answered: MarkersAnswered) -> None:
        self.outcomes |= {topic: code for (topic, _), code in answered.outcomes.items()}


class Local:
    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, request: WriteTxnMarkersRequest, done: Callable[[Any], None]) -> None:
        self.written += [topic.name for marker in request.markers for topic in marker.topics]
        done(all_with(NONE)(request))


class MarkerWorld:
    def __init__(self, nursery: trio.Nursery, image: Image) -> None:
        self.brokers: Any = Brokers(nursery)
        self.local: Any = Local()
        self.owner: Any = Owner()
        image_: Any = image
        self.sender = MarkerSender(HERE, lambda: image_, self.local, self.brokers)

    def send(self, *topics: str, producer_id: int = 7) -> None:
        written = frozenset((topic, 0) for topic in topics)
        self.sender.send(self.owner, SendMarkers("x", producer_id, 0, True, 2, written))

    @property
    def requested(self) -> list[tuple[int, list[list[str]]]]:
        return [
            (broker, [[topic.name for topic in marker.topics] for marker in request.markers])
            for broker, request in self.brokers.requests
        ]


def with_markers(image: Image, test: Callable[[MarkerWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await test(MarkerWorld(nursery, image))
            nursery.cancel_scope.cancel()

    run(main)


def test_markers_go_to_the_leaders_of_their_partitions() -> None:
    async def test(world: MarkerWorld) -> None:
        world.send("here", "other", "third", "deleted")
        await wait_all_tasks_blocked()
        assert world.local.written == ["here"]
        assert sorted(world.requested) == [(OTHER, [["other"]]), (THIRD, [["third"]])]
        marker = world.brokers.requests[0][1].markers[0]
        assert (marker.producer_id, marker.coordinator_epoch, marker.transaction_version) == (
            7,
            5,
            2,
        )
        assert world.owner.outcomes == {"here": NONE, "deleted": NONE}
        world.brokers.answer(all_with(NONE))
        world.brokers.answer(all_with(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        await wait_all_tasks_blocked()
        assert sorted(world.owner.outcomes.values())[-1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert world.owner.outcomes.keys() == {"here", "other", "third", "deleted"}

    with_markers(Image(here=HERE, other=OTHER, third=THIRD), test)


def test_broker_has_one_request_in_flight_and_the_next_carries_all_that_waits() -> None:
    async def test(world: MarkerWorld) -> None:
        world.send("a", producer_id=1)
        await wait_all_tasks_blocked()
        world.send("b", producer_id=2)
        world.send("c", producer_id=3)
        world.send("a", producer_id=3)
        await wait_all_tasks_blocked()
        assert len(world.requested) == 1
        world.brokers.answer(all_with(NONE))
        await wait_all_tasks_blocked()
        world.brokers.answer(all_with(NONE))
        await wait_all_tasks_blocked()
        assert world.requested == [
            (OTHER, [["a"]]),
            (OTHER, [["b"], ["c"]]),
            (OTHER, [["a"]]),  # the producer's first marker must be answered before
        ]

    with_markers(Image(a=OTHER, b=OTHER, c=OTHER), test)


def test_markers_without_a_leader_wait_for_one() -> None:
    image = Image(t=NOBODY, u=THIRD)

    async def test(world: MarkerWorld) -> None:
        world.brokers.reachable = {OTHER}
        world.send("t", "u")
        await wait_all_tasks_blocked()
        world.sender.follow_metadata()
        await wait_all_tasks_blocked()
        assert world.requested == []
        image.leaders["t"] = OTHER
        world.sender.follow_metadata()
        await wait_all_tasks_blocked()
        assert world.requested == [(OTHER, [["t"]])]
        del image.leaders["u"]
        world.sender.follow_metadata()
        assert world.owner.outcomes == {"u": NONE}

    with_markers(image, test)


def test_disconnect_is_an_outcome_that_the_coordinator_retries() -> None:
    async def test(world: MarkerWorld) -> None:
        world.send("t")
        world.brokers.answer(KafkaError(NETWORK, "reset"))
        await wait_all_tasks_blocked()
        assert world.owner.outcomes == {"t": NETWORK}
        world.send("t")
        world.brokers.answer(all_with(NONE))
        await wait_all_tasks_blocked()
        assert world.owner.outcomes == {"t": NONE}

    with_markers(Image(t=OTHER), test)


@pytest.mark.parametrize("is_resigned", [True, False], ids=["resigned", "new epoch"])
def test_markers_of_a_coordinator_that_has_resigned_are_dropped(is_resigned: bool) -> None:
    async def test(world: MarkerWorld) -> None:
        world.send("a", producer_id=1)
        await wait_all_tasks_blocked()
        world.send("b", producer_id=2)
        world.send("c", producer_id=3)
        if is_resigned:
            world.owner.is_loaded = False
        else:
            world.owner.leader_epoch = 6
        world.brokers.answer(all_with(NONE))
        await wait_all_tasks_blocked()
        world.sender.follow_metadata()
        await wait_all_tasks_blocked()
        assert world.owner.outcomes == {}
        assert world.requested == [(OTHER, [["a"]])]

    with_markers(Image(a=OTHER, b=OTHER, c=NOBODY), test)


# Verification


class Coordinator:
    """The local coordinator; transactional id x has its coordinator on this node."""

    def __init__(self) -> None:
        self.guards = Guards()
        self.added: list[Any] = []

    def partition_of(self, transactional_id: str) -> int | None:
        return None if transactional_id == "none" else 0

    async def add_partitions(self, *arguments: Any) -> None:
        self.added.append(arguments)

    async def verify_partitions(self, *arguments: Any) -> Any:
        return dict.fromkeys(arguments[-1], ErrorCode.TRANSACTION_ABORTABLE)


def verified(request: Any) -> AddPartitionsToTxnResponse:
    """Answer NONE for every partition."""
    response = AddPartitionsToTxnResponse
    return response(
        results_by_transaction=[
            response.AddPartitionsToTxnResult(
                transactional_id=asked.transactional_id,
                topic_results=[
                    response.AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            response.AddPartitionsToTxnPartitionResult(partition_index=index)
                            for index in topic.partitions
                        ],
                    )
                    for topic in asked.topics
                ],
            )
            for asked in request.transactions
        ]
    )


def with_verifier(
    leader: int,
    test: Callable[[VerificationClient, Any, Any, trio.Nursery], Awaitable[None]],
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            brokers: Any = Brokers(nursery)
            local: Any = Coordinator()
            image: Any = Image(__transaction_state=leader)
            client = VerificationClient(HERE, lambda: image, local, brokers)
            await test(client, brokers, local, nursery)
            nursery.cancel_scope.cancel()

    run(main)


T0 = ("t", 0)


def test_verification_at_this_nodes_coordinator_does_not_travel() -> None:
    async def test(client: VerificationClient, brokers: Any, local: Any, _: Any) -> None:
        assert await client.verify("x", 7, 0, [T0], adds=True) == {T0: NONE}
        assert local.added == [("x", 7, 0, (T0,), 2)]
        told = await client.verify("x", 7, 0, [T0], adds=False)
        assert told == {T0: ErrorCode.TRANSACTION_ABORTABLE}
        assert brokers.requests == []

    with_verifier(HERE, test)


@pytest.mark.parametrize("adds", [True, False])
def test_verification_at_another_broker_returns_its_outcomes(adds: bool) -> None:
    async def test(client: VerificationClient, brokers: Any, local: Any, _: Any) -> None:
        brokers.answer(verified)
        assert await client.verify("x", 7, 0, [T0], adds=adds) == {T0: NONE}
        ((broker, request),) = brokers.requests
        assert broker == OTHER
        assert [each.verify_only for each in request.transactions] == [not adds]
        assert local.added == []

    with_verifier(OTHER, test)


def test_verifications_that_wait_for_a_coordinator_travel_together() -> None:
    async def test(client: VerificationClient, brokers: Any, _: Any, nursery: trio.Nursery) -> None:
        def ask(name: str) -> Asked:
            return Asked(nursery, lambda: client.verify(name, 7, 0, [T0], adds=False))

        asked = [ask("a")]
        await wait_all_tasks_blocked()
        asked += [ask("b"), ask("c")]
        await wait_all_tasks_blocked()
        again = ask("b")  # the client has sent its request again
        await wait_all_tasks_blocked()
        brokers.answer(verified)
        brokers.answer(verified)
        await wait_all_tasks_blocked()
        assert [
            sorted(t.transactional_id for t in r.transactions) for _, r in brokers.requests
        ] == [
            ["a"],
            ["b", "c"],
        ]
        assert [each.answers for each in asked] == [[{T0: NONE}], [NETWORK], [{T0: NONE}]]
        assert again.answers == [{T0: NONE}]

    with_verifier(OTHER, test)


def test_failed_verification_is_never_a_success() -> None:
    async def test(client: VerificationClient, brokers: Any, _: Any, __: Any) -> None:
        brokers.answer(KafkaError(NETWORK, "reset"))
        with pytest.raises(KafkaError) as raised:
            await client.verify("x", 7, 0, [T0], adds=True)
        assert raised.value.code is NETWORK
        brokers.answer(lambda _: AddPartitionsToTxnResponse())
        assert await client.verify("x", 7, 0, [T0], adds=True) == {T0: ErrorCode.INVALID_TXN_STATE}

    with_verifier(OTHER, test)


@pytest.mark.parametrize(("leader", "name"), [(NOBODY, "x"), (9, "x"), (OTHER, "none")])
def test_unknown_coordinator_is_a_retriable_error(leader: int, name: str) -> None:
    async def test(client: VerificationClient, _: Any, __: Any, ___: Any) -> None:
        with pytest.raises(KafkaError) as raised:
            await client.verify(name, 7, 0, [T0], adds=True)
        assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_verifier(leader, test)


def test_transactions_of_one_request_wait_for_their_commits_together() -> None:
    both = trio.Event()
    waiting: list[str] = []

    class Transactions:
        async def add_partitions(self, transactional_id: str, *_: Any) -> None:
            waiting.append(transactional_id)
            if len(waiting) == 2:
                both.set()
            await both.wait()
            if transactional_id == "b":
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "no")

    image: Any = Image(t=HERE)
    services = SimpleNamespace(image=lambda: image, transactions=Transactions())
    context: Any = SimpleNamespace(services=services, version=5)
    verifications = [Verification(0, name, 7, 0, (T0,), True) for name in ("a", "b")]
    response = trio.run(add_partitions_to_txn, context, verification_request(verifications))
    codes = [outcomes_of_verification(each, response)[T0] for each in verifications]
    assert codes == [NONE, ErrorCode.CONCURRENT_TRANSACTIONS]


# Connections


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def broker_at(port: int, *, fenced: bool = False) -> Any:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port, 0)
    return SimpleNamespace(fenced=fenced, endpoints={"PLAINTEXT": endpoint})


def with_requests(
    brokers: dict[int, Any], test: Callable[[BrokerRequests], Awaitable[None]]
) -> None:
    brokers.setdefault(HERE, broker_at(1))
    image: Any = SimpleNamespace(brokers=brokers)

    async def main() -> None:
        requests = BrokerRequests(HERE, "test", "PLAINTEXT", lambda: image)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(requests.run)
                await test(requests)
                nursery.cancel_scope.cancel()

    trio.run(main)


async def failure(requests: BrokerRequests, broker_id: int) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        await requests.ask(broker_id, WriteTxnMarkersRequest(), WriteTxnMarkersResponse)
    return raised.value.code


def test_request_to_a_broker_returns_its_response(node: Node) -> None:
    async def test(requests: BrokerRequests) -> None:
        for _ in range(2):
            response = await requests.ask(OTHER, WriteTxnMarkersRequest(), WriteTxnMarkersResponse)
            assert response == WriteTxnMarkersResponse()

    with_requests({OTHER: broker_at(node.port)}, test)


def test_request_to_a_broker_that_is_gone_is_a_network_exception(node: Node) -> None:
    async def test(requests: BrokerRequests) -> None:
        for broker_id in (OTHER, THIRD, 9):
            assert await failure(requests, broker_id) is NETWORK

    with_requests({OTHER: broker_at(1), THIRD: broker_at(node.port, fenced=True)}, test)


@pytest.mark.parametrize("fenced", [OTHER, HERE])
def test_request_to_a_broker_ends_when_one_of_the_two_is_fenced(fenced: int) -> None:
    brokers: dict[int, Any] = {}

    async def test(requests: BrokerRequests) -> None:
        silent = await trio.open_tcp_listeners(0, host="127.0.0.1")
        brokers[OTHER] = broker_at(silent[0].socket.getsockname()[1])
        codes: list[ErrorCode] = []

        async def ask() -> None:
            codes.append(await failure(requests, OTHER))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(0.05)
            requests.follow_metadata()
            await trio.sleep(0.05)
            assert codes == []
            brokers[fenced].fenced = True
            requests.follow_metadata()
        assert codes == [NETWORK]
        await silent[0].aclose()

    with_requests(brokers, test)


@pytest.mark.parametrize("fenced", [OTHER, HERE])
def test_connection_that_was_silent_is_not_used_again_after_the_fence(fenced: int) -> None:
    """As after a cut of the network that has healed: only a new connection gets answers."""
    broker = FakeBroker(lambda request, _: answer(request))
    brokers: dict[int, Any] = {}

    def answer(request: Any) -> WriteTxnMarkersResponse | None:
        is_markers = isinstance(request, WriteTxnMarkersRequest)
        return WriteTxnMarkersResponse() if is_markers and broker.connections > 1 else None

    async def test(requests: BrokerRequests) -> None:
        async with trio.open_nursery() as nursery:
            brokers[OTHER] = broker_at((await nursery.start(broker.serve)).port)
            nursery.start_soon(failure, requests, OTHER)
            await eventually(lambda: len(broker.requests) > 1)  # after ApiVersions
            for is_fenced in (True, False):
                brokers[fenced].fenced = is_fenced
                requests.follow_metadata()
            response = await requests.ask(OTHER, WriteTxnMarkersRequest(), WriteTxnMarkersResponse)
            assert response == WriteTxnMarkersResponse()
            nursery.cancel_scope.cancel()

    with_requests(brokers, test)
