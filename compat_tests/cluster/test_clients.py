"""Clients of three languages against three nodes: admin from any node, groups, transactions."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from barnabas.testing.known_brokers import wait_until_topic_known
from barnabas.testing.process import ClusterProcess
from compat_tests import jars

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(240)]

RECORDS = 200
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterProcess]:
    with ClusterProcess(nodes=3) as started:
        yield started


def addresses(cluster: ClusterProcess) -> list[str]:
    return [node.bootstrap for node in cluster.layout.plan.nodes]


def create(cluster: ClusterProcess, topic: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, partitions, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([new])[topic].result(30)
    wait_until_topic_known(addresses(cluster), topic)


def consume(bootstrap: str, topic: str, group: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        values: list[bytes | None] = []
        deadline = time.monotonic() + 60
        while len(values) < count and time.monotonic() < deadline:
            values += [each.value() for each in consumer.consume(count, 1) if not each.error()]
        consumer.commit(asynchronous=False)
        return values
    finally:
        consumer.close()


def test_admin_requests_work_from_every_node(cluster: ClusterProcess) -> None:
    for number, address in enumerate(addresses(cluster)):
        admin = AdminClient({"bootstrap.servers": address})
        topic = f"admin-{number}"
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(30)
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "70000"})
        admin.alter_configs([resource])[resource].result(30)
        admin.delete_topics([topic])[topic].result(30)


def test_group_continues_when_its_coordinator_is_killed(cluster: ClusterProcess) -> None:
    create(cluster, "grouped")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce("grouped", b"%d" % number)
    assert producer.flush(30) == 0
    assert len(consume(cluster.bootstrap, "grouped", "readers", RECORDS)) == RECORDS
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    described = admin.describe_consumer_groups(["readers"])["readers"].result(30)
    coordinator = cluster.nodes[described.coordinator.id]
    coordinator.kill()
    try:
        for number in range(RECORDS):
            producer.produce("grouped", b"again %d" % number)
        assert producer.flush(60) == 0
        found = consume(cluster.bootstrap, "grouped", "readers", RECORDS)
        assert len(found) == RECORDS, "the committed offsets were lost, or records"
        assert all(value is not None and value.startswith(b"again") for value in found)
    finally:
        coordinator.start()


def test_transaction_over_partitions_of_all_nodes_is_atomic(cluster: ClusterProcess) -> None:
    create(cluster, "transactional")
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": "writer",
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    for round_number in range(6):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("transactional", b"%d" % round_number, partition=partition)
        if round_number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    found = consume(cluster.bootstrap, "transactional", "committed", 9)
    assert sorted(value or b"" for value in found) == [b"0"] * 3 + [b"2"] * 3 + [b"4"] * 3


def test_kafka_python_and_aiokafka_read_what_they_write(cluster: ClusterProcess) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from kafka import KafkaProducer

    create(cluster, "python")
    first = KafkaProducer(bootstrap_servers=addresses(cluster), acks="all")
    for number in range(RECORDS):
        first.send("python", b"a%d" % number)
    first.flush(30)
    first.close()

    async def main() -> int:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            for number in range(RECORDS):
                await producer.send_and_wait("python", b"b%d" % number)
        count = 0
        consumer = AIOKafkaConsumer(
            "python",
            bootstrap_servers=cluster.bootstrap,
            group_id="aio",
            auto_offset_reset="earliest",
        )
        async with consumer:
            while count < 2 * RECORDS:
                await asyncio.wait_for(consumer.getone(), 30)
                count += 1
        return count

    assert asyncio.run(main()) == 2 * RECORDS


@jars.needed
def test_kafkas_tools_describe_and_change_the_cluster(cluster: ClusterProcess) -> None:
    server = ("--bootstrap-server", addresses(cluster)[1])
    jars.java(
        f"{TOOLS}.TopicCommand", *server, "--create", "--topic", "tool", "--replication-factor", "3"
    )
    shown = jars.java(f"{TOOLS}.TopicCommand", *server, "--describe", "--topic", "tool").stdout
    assert "ReplicationFactor: 3" in shown
    status = jars.java(f"{TOOLS}.MetadataQuorumCommand", *server, "describe", "--status").stdout
    assert "LeaderId:" in status
    assert '"id": 3' in status
    replicas = jars.java(
        f"{TOOLS}.MetadataQuorumCommand", *server, "describe", "--replication"
    ).stdout
    assert len(replicas.strip().splitlines()) == 4
    lines = "\n".join(f"line {number}" for number in range(RECORDS))
    jars.java(f"{TOOLS}.ConsoleProducer", *server, "--topic", "tool", stdin=lines + "\n")
    assert len(consume(cluster.bootstrap, "tool", "after-tool", RECORDS)) == RECORDS
