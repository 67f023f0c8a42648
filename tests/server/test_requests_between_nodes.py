"""Three nodes in one event loop: admin requests to any of them, and transactions across them."""

import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.broker_connection import BrokerConnection, open_connection
from barnabas.client.client_config import ClientConfig
from barnabas.client.failures import Address
from barnabas.coordinator.core.routing import partition_for
from barnabas.protocol.apis import FORWARDABLE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from tests.server.quorum_nodes import QuorumNodes

ENVELOPE = 58
PARTITIONS = 6
CONFIG = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}


def with_nodes(path: Path, test: Callable[[QuorumNodes], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(path, nursery, config=CONFIG)
            with trio.fail_after(30):
                await nodes.start(1, 2, 3)
                await test(nodes)
            nursery.cancel_scope.cancel()

    trio.run(main)


def requests(nodes: QuorumNodes, node_id: int, api_key: int, listener: Any = "broker") -> int:
    routes = nodes.running[node_id].dispatchers[listener].routes.values()
    return sum(route.requests for route in routes if route.api_key == api_key)


def of(struct: Any, **fields: Any) -> Any:
    return struct(**fields)


def admin_requests() -> Iterable[tuple[Any, Any, Callable[[Any], list[int]]]]:
    """Requests of an administrator, their responses, and the error codes of these."""
    topics = [
        of(CreateTopicsRequest.CreatableTopic, name="t", num_partitions=2, replication_factor=3)
    ]
    yield CreateTopicsRequest(topics=topics), CreateTopicsResponse, codes("topics")
    more = of(CreatePartitionsRequest.CreatePartitionsTopic, name="t", count=3, assignments=None)
    yield CreatePartitionsRequest(topics=[more]), CreatePartitionsResponse, codes("results")
    alterable = of(AlterConfigsRequest.AlterableConfig, name="retention.ms", value="1000")
    resource = of(
        AlterConfigsRequest.AlterConfigsResource,
        resource_type=2,
        resource_name="t",
        configs=[alterable],
    )
    yield AlterConfigsRequest(resources=[resource]), AlterConfigsResponse, codes("responses")
    change = of(
        IncrementalAlterConfigsRequest.AlterableConfig,
        name="retention.ms",
        config_operation=0,
        value="2000",
    )
    resource = of(
        IncrementalAlterConfigsRequest.AlterConfigsResource,
        resource_type=2,
        resource_name="t",
        configs=[change],
    )
    yield (
        IncrementalAlterConfigsRequest(resources=[resource]),
        IncrementalAlterConfigsResponse,
        codes("responses"),
    )
    moved = of(
        AlterPartitionReassignmentsRequest.ReassignablePartition,
        partition_index=0,
        replicas=[3, 1, 2],
    )
    topic = of(AlterPartitionReassignmentsRequest.ReassignableTopic, name="t", partitions=[moved])
    yield (
        AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=5000),
        AlterPartitionReassignmentsResponse,
        lambda answer: [answer.error_code, answer.responses[0].partitions[0].error_code],
    )
    yield ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse, top
    elect = of(ElectLeadersRequest.TopicPartitions, topic="t", partitions=[1])
    yield (
        ElectLeadersRequest(election_type=0, topic_partitions=[elect], timeout_ms=5000),
        ElectLeadersResponse,
        top,
    )
    yield UpdateFeaturesRequest(feature_updates=[], validate_only=True), UpdateFeaturesResponse, top
    partition = of(DescribeQuorumRequest.PartitionData, partition_index=0)
    metadata = of(
        DescribeQuorumRequest.TopicData, topic_name="__cluster_metadata", partitions=[partition]
    )
    yield (
        DescribeQuorumRequest(topics=[metadata]),
        DescribeQuorumResponse,
        lambda answer: [answer.error_code, answer.topics[0].partitions[0].error_code],
    )
    gone = of(DeleteTopicsRequest.DeleteTopicState, name="t")
    yield DeleteTopicsRequest(topics=[gone]), DeleteTopicsResponse, codes("responses")


def codes(field: str) -> Callable[[Any], list[int]]:
    return lambda answer: [each.error_code for each in getattr(answer, field)]


def top(answer: Any) -> list[int]:
    return [answer.error_code]


async def connect(nodes: QuorumNodes, node_id: int, nursery: trio.Nursery) -> BrokerConnection:
    address = Address("127.0.0.1", nodes.ports(node_id)[0])
    return await open_connection(address, ClientConfig((address,), client_id="admin"), nursery)


def test_admin_requests_to_any_broker_are_answered_by_the_controller(tmp_path: Path) -> None:
    async def test(nodes: QuorumNodes) -> None:
        leader = nodes.leader_id
        follower = next(node_id for node_id in nodes.running if node_id != leader)
        async with trio.open_nursery() as nursery:
            connection = await connect(nodes, follower, nursery)
            for sent, (request, response_type, errors) in enumerate(admin_requests(), 1):
                assert request.API_KEY in FORWARDABLE
                answer: Any = await connection.ask(request, response_type)
                assert set(errors(answer)) <= {0}, (request, answer)
                assert requests(nodes, leader, ENVELOPE, "controller") == sent
            unknown = UnregisterBrokerRequest(broker_id=77)
            refused = await connection.ask(unknown, UnregisterBrokerResponse)
            assert refused.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
            ranges = connection.versions.ranges
            assert ranges.keys() >= {19, 20, 33, 37, 43, 44, 45, 46, 55, 57, 64}
            nursery.cancel_scope.cancel()
        assert requests(nodes, leader, ENVELOPE, "broker") == 0

    with_nodes(tmp_path, test)


def test_admin_request_survives_the_end_of_the_controller(tmp_path: Path) -> None:
    async def test(nodes: QuorumNodes) -> None:
        killed = nodes.leader_id
        follower = next(node_id for node_id in nodes.running if node_id != killed)
        create, _, _ = next(iter(admin_requests()))
        create.topics[0].replication_factor = 1
        async with trio.open_nursery() as nursery:
            connection = await connect(nodes, follower, nursery)
            await nodes.kill(killed)
            started = trio.current_time()
            answer = await connection.ask(create, CreateTopicsResponse)
            assert [each.error_code for each in answer.topics] == [0]
            assert trio.current_time() - started < 5
            nursery.cancel_scope.cancel()

    with_nodes(tmp_path, test)


def test_topics_are_created_on_first_use_at_any_broker(tmp_path: Path) -> None:
    async def test(nodes: QuorumNodes) -> None:
        wanted = of(MetadataRequest.MetadataRequestTopic, name="auto")
        metadata = MetadataRequest(topics=[wanted], allow_auto_topic_creation=True)
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
        follower = next(node_id for node_id in nodes.running if node_id != nodes.leader_id)
        found: set[tuple[int, str]] = set()
        async with trio.open_nursery() as nursery:
            for node_id in (follower, *nodes.running):
                connection = await connect(nodes, node_id, nursery)
                code, coordinator = -1, -1
                while code or coordinator < 0:
                    answer = await connection.ask(metadata, MetadataResponse)
                    code = answer.topics[0].error_code
                    located = await connection.ask(find, FindCoordinatorResponse)
                    coordinator = located.coordinators[0].node_id
                found.add((coordinator, answer.topics[0].name or ""))
            nursery.cancel_scope.cancel()
        assert len(found) == 1  # every node names the same coordinator
        topic = nodes.running[follower].image.topics_by_name[TRANSACTION_TOPIC]
        assert {len(each.replicas) for each in topic.partitions.values()} == {3}

    with_nodes(tmp_path, test)


# Transactions


def leader_of(nodes: QuorumNodes, topic: str, partition: int) -> int:
    image = nodes.running[1].image.partition(topic, partition)
    assert image is not None
    return image.leader


def key_at(nodes: QuorumNodes, topic: str, node_id: int, prefix: str) -> str:
    """Return a group or transactional id that a node coordinates."""
    names = (f"{prefix}{number}" for number in range(1000))
    return next(
        name
        for name in names
        if leader_of(nodes, topic, partition_for(name, PARTITIONS)) == node_id
    )


class Clients:
    """Real clients, for use in a thread."""

    def __init__(self, nodes: QuorumNodes) -> None:
        ports = [nodes.ports(node_id)[0] for node_id in nodes.running]
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)

    def create_topics(self) -> None:
        """Create the topics of the test; the coordinators' are created on first use."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topics = [NewTopic(name, 3, 3) for name in ("in", "out")]
        for created in admin.create_topics(topics).values():
            created.result(10)
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "first"})
        producer.init_transactions(10)
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "first"})
        consumer.committed([TopicPartition("in", 0)], 10)
        consumer.close()

    def copy(self, transactional_id: str, group_id: str, *, commits: bool) -> None:
        """Write to every partition of a topic in a transaction that has offsets of a group."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": transactional_id,
        }
        producer = Producer(settings)
        producer.init_transactions(10)
        consumer = self._consumer(group_id)
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("out", f"{transactional_id}-{commits}", partition=partition)
        offsets = [TopicPartition("in", 0, 5 if commits else 9)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 10)
        if commits:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)
        consumer.close()

    def _consumer(self, group_id: str) -> Consumer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group_id,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        return Consumer(settings)

    def committed(self, group_id: str) -> int:
        consumer = self._consumer(group_id)
        (found,) = consumer.committed([TopicPartition("in", 0)], 10)
        consumer.close()
        return found.offset

    def read(self, count: int) -> list[str]:
        """Return the committed records of all partitions, at least `count` of them."""
        consumer = self._consumer("reader")
        consumer.assign([TopicPartition("out", partition, 0) for partition in range(3)])
        values: list[str] = []
        deadline = time.monotonic() + 10
        while len(values) < count and time.monotonic() < deadline:
            values += [str(m.value(), "utf-8") for m in consumer.consume(100, 0.2) if not m.error()]
        consumer.close()
        return sorted(values)


@pytest.mark.parametrize("turn", range(3))
def test_transaction_has_coordinator_group_and_partitions_on_three_nodes(
    tmp_path: Path, turn: int
) -> None:
    async def test(nodes: QuorumNodes) -> None:
        clients = Clients(nodes)
        await trio.to_thread.run_sync(clients.create_topics)
        coordinator, group = turn + 1, (turn + 1) % 3 + 1
        transactional_id = key_at(nodes, TRANSACTION_TOPIC, coordinator, "x")
        group_id = key_at(nodes, OFFSETS_TOPIC, group, "g")
        assert {leader_of(nodes, "out", index) for index in range(3)} == {1, 2, 3}

        def work() -> list[Any]:
            clients.copy(transactional_id, group_id, commits=True)
            clients.copy(transactional_id, group_id, commits=False)
            return [clients.committed(group_id), clients.read(3)]

        offset, values = await trio.to_thread.run_sync(work)
        assert offset == 5
        assert values == [f"{transactional_id}-True"] * 3
        others = [node_id for node_id in nodes.running if node_id != coordinator]
        assert all(requests(nodes, node_id, 27) for node_id in others)  # WriteTxnMarkers
        assert requests(nodes, coordinator, 24)  # AddPartitionsToTxn

    with_nodes(tmp_path, test)
