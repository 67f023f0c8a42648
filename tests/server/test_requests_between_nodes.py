"""Three nodes in one event loop: admin requests to any of them, and transactions across them."""

import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
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
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from barnabas.server.node.node import Node
from barnabas.testing.batches import batch
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
            with trio.fail_after(60):
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
            no_voter = RemoveRaftVoterRequest(cluster_id=None, voter_id=77)
            not_found = await connection.ask(no_voter, RemoveRaftVoterResponse)
            assert not_found.error_code == ErrorCode.VOTER_NOT_FOUND
            ranges = connection.versions.ranges
            assert ranges.keys() >= {19, 20, 33, 37, 43, 44, 45, 46, 55, 57, 64, 80, 81}
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
            assert trio.current_time() - started < 25  # controller.socket.timeout.ms is 30 s
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


async def coordinators_ready(nodes: QuorumNodes) -> None:
    """Have the coordinators' topics created; return when every coordinator serves its keys.

    A client is sent to a coordinator as soon as one node has applied the new topic. The coordinator
    may apply it later, and librdkafka reports its NOT_COORDINATOR for fetched offsets to the user.
    """
    async with trio.open_nursery() as nursery:
        connection = await connect(nodes, nodes.leader_id, nursery)
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
            await connection.ask(request, FindCoordinatorResponse)
        nursery.cancel_scope.cancel()
    await nodes.eventually(lambda: all(loaded(nodes, kind) for kind in ("groups", "transactions")))
    await nodes.eventually(lambda: all(knows_topics(node) for node in nodes.running.values()))


def knows_topics(node: Node) -> bool:
    return {"in", "out", OFFSETS_TOPIC, TRANSACTION_TOPIC} <= node.image.topics_by_name.keys()


def loaded(nodes: QuorumNodes, kind: str) -> bool:
    """Return whether each partition of a kind of coordinator is loaded at its leader."""
    services: list[Any] = [getattr(node, kind) for node in nodes.running.values()]
    indexes = [index for s in services for index, each in s.partitions.items() if each.is_loaded]
    return sorted(indexes) == list(range(PARTITIONS))


class Clients:
    """Real clients, for use in a thread."""

    def __init__(self, nodes: QuorumNodes) -> None:
        ports = [nodes.ports(node_id)[0] for node_id in nodes.running]
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topics = [NewTopic(name, 3, 3) for name in ("in", "out")]
        for created in admin.create_topics(topics).values():
            created.result(60)

    def copy(self, transactional_id: str, group_id: str, *, commits: bool) -> None:
        """Write to every partition of a topic in a transaction that has offsets of a group."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": transactional_id,
        }
        producer = Producer(settings)
        producer.init_transactions(60)
        consumer = self._consumer(group_id)
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("out", f"{transactional_id}-{commits}", partition=partition)
        offsets = [TopicPartition("in", 0, 5 if commits else 9)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
        if commits:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
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
        (found,) = consumer.committed([TopicPartition("in", 0)], 60)
        consumer.close()
        return found.offset

    def read(self, count: int) -> list[str]:
        """Return the committed records of all partitions, at least `count` of them."""
        consumer = self._consumer("reader")
        consumer.assign([TopicPartition("out", partition, 0) for partition in range(3)])
        values: list[str] = []
        deadline = time.monotonic() + 60
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
        await coordinators_ready(nodes)
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


class RawProducer:
    """A producer whose requests the test makes itself, each at the node that must answer it."""

    def __init__(self, nodes: QuorumNodes, nursery: trio.Nursery, names: tuple[str, str]) -> None:
        self.nodes = nodes
        self.transactional_id, self.group_id = names
        self._nursery = nursery
        self._connections: dict[int, BrokerConnection] = {}

    async def ask(self, node_id: int, request: Any, answer: Any, version: int) -> Any:
        if node_id not in self._connections:
            self._connections[node_id] = await connect(self.nodes, node_id, self._nursery)
        return await self._connections[node_id].ask(request, answer, max_version=version)

    def coordinator(self) -> int:
        index = partition_for(self.transactional_id, PARTITIONS)
        return leader_of(self.nodes, TRANSACTION_TOPIC, index)

    async def init(self) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = await self.ask(self.coordinator(), request, InitProducerIdResponse, 5)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    async def produce(
        self, producer: tuple[int, int], partition: int, sequence: int, version: int = 12
    ) -> ErrorCode:
        now_ms = int(time.time() * 1000)
        records = batch(
            b"v", timestamps=[now_ms], producer=(*producer, sequence), transactional=True
        )
        data = of(ProduceRequest.PartitionProduceData, index=partition, records=bytes(records))
        topic = of(ProduceRequest.TopicProduceData, name="out", partition_data=[data])
        request = ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=5000, topic_data=[topic]
        )
        leader = leader_of(self.nodes, "out", partition)
        answer = await self.ask(leader, request, ProduceResponse, version)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def commit_offset(self, producer: tuple[int, int], offset: int) -> ErrorCode:
        partition = of(
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition,
            partition_index=0,
            committed_offset=offset,
        )
        topic = of(
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic, name="in", partitions=[partition]
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[topic],
        )
        group = leader_of(self.nodes, OFFSETS_TOPIC, partition_for(self.group_id, PARTITIONS))
        answer = await self.ask(group, request, TxnOffsetCommitResponse, 5)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def end(self, producer: tuple[int, int], *, commit: bool) -> tuple[int, int]:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        answer = await self.ask(self.coordinator(), request, EndTxnResponse, 5)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch


def open_transactions(nodes: QuorumNodes) -> int:
    """Return the number of partitions with an open transaction, or an unreplicated end of one."""
    return sum(
        partition.log.last_stable_offset < partition.log.log_end_offset
        for node in nodes.running.values()
        for partition in node.replicas.partitions()
        if partition.is_leader and partition.topic in ("out", OFFSETS_TOPIC)
    )


async def until_ok(produce: Callable[[], Awaitable[ErrorCode]]) -> ErrorCode:
    """Return the first answer that says neither that the producer nor that the broker is late."""
    while True:
        code = await produce()
        if code not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS):
            return code
        await trio.sleep(0.02)


def test_transaction_of_the_second_version_is_verified_at_the_remote_coordinator(
    tmp_path: Path,
) -> None:
    """The leaders of the partitions and of the group add them to the transaction."""

    async def test(nodes: QuorumNodes) -> None:
        clients = Clients(nodes)
        await trio.to_thread.run_sync(clients.create_topics)
        await coordinators_ready(nodes)
        names = (
            key_at(nodes, TRANSACTION_TOPIC, 1, "x"),
            key_at(nodes, OFFSETS_TOPIC, 2, "g"),
        )
        async with trio.open_nursery() as nursery:
            raw = RawProducer(nodes, nursery, names)
            first = await raw.init()
            for partition in range(3):
                assert await until_ok(partial(raw.produce, first, partition, 0)) is ErrorCode.NONE
            assert await raw.commit_offset(first, 5) is ErrorCode.NONE
            assert open_transactions(nodes) == 4
            second = await raw.end(first, commit=True)
            assert second == (first[0], first[1] + 1)
            await nodes.eventually(lambda: not open_transactions(nodes))
            fenced = await until_ok(partial(raw.produce, first, 0, 1))
            assert fenced is ErrorCode.INVALID_PRODUCER_EPOCH
            assert await until_ok(partial(raw.produce, second, 1, 0)) is ErrorCode.NONE
            assert await raw.commit_offset(second, 9) is ErrorCode.NONE
            third = await raw.end(second, commit=False)
            await nodes.eventually(lambda: not open_transactions(nodes))
            # An older client must have added the partition itself.
            refused = await until_ok(partial(raw.produce, third, 2, 0, version=11))
            assert refused is ErrorCode.TRANSACTION_ABORTABLE
            nursery.cancel_scope.cancel()
        committed = await trio.to_thread.run_sync(clients.committed, names[1])
        assert committed == 5

    with_nodes(tmp_path, test)
