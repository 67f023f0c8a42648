"""The quorum's log and snapshots: read by Kafka's tools, used by Apache Kafka and by barnabas
again.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from barnabas.testing import Node
from barnabas.testing.free_ports import free_ports
from compat_tests import jars
from compat_tests.cluster.machines import barnabas
from compat_tests.servers import KafkaProcess

pytestmark = jars.needed

DUMP = "org.apache.kafka.tools.DumpLogSegments"
METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"
VALUES = [f"value {number}".encode() for number in range(500)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def fill(bootstrap: str) -> None:
    """Create a topic with its own configuration and records, and delete another one."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("kept", 2, 1, config={"retention.ms": "-1", "cleanup.policy": "compact,delete"}),
        NewTopic("gone", 1, 1),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    for future in admin.delete_topics(["gone"]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in VALUES:
        producer.produce("kept", value, key=value, partition=1)
    assert producer.flush(30) == 0


def check(bootstrap: str) -> None:
    """Check that the data of `fill` is present."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    metadata = admin.list_topics(timeout=30)
    assert "gone" not in metadata.topics
    assert sorted(metadata.topics["kept"].partitions) == [0, 1]
    resource = ConfigResource(ResourceType.TOPIC, "kept")
    config = admin.describe_configs([resource])[resource].result(30)
    assert config["retention.ms"].value == "-1"
    assert config["cleanup.policy"].value == "compact,delete"
    assert read(bootstrap, "kept", 1, len(VALUES)) == VALUES


def check_values(bootstrap: str) -> None:
    assert read(bootstrap, "kept", 1, len(VALUES)) == VALUES


def read(bootstrap: str, topic: str, partition: int, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        messages = []
        while len(messages) < count:
            got = consumer.consume(count - len(messages), timeout=30)
            assert got, f"{len(messages)} of {count} records"
            messages += got
        return [message.value() for message in messages]
    finally:
        consumer.close()


def payloads(dump: str) -> Iterator[tuple[str, dict]]:
    for line in dump.splitlines():
        match = re.search(r"payload: (\{.*\})$", line)
        if match:
            record = json.loads(match[1])
            yield record["type"], record["data"]


def test_kafkas_tool_decodes_the_metadata_log(data) -> None:
    with Node(data) as node:
        fill(node.bootstrap)
    dump = jars.java(DUMP, "--cluster-metadata-decoder", "--files", data / METADATA_LOG).stdout
    assert "isvalid: false" not in dump
    assert '"leaderId":1,"voters":[{"voterId":1' in dump
    assert 'KRaftVersion {"version":0,"kRaftVersion":1}' in dump
    assert "KRaftVoters" in dump
    records = list(payloads(dump))
    kinds = {kind for kind, _ in records}
    assert {
        "FEATURE_LEVEL_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "REMOVE_TOPIC_RECORD",
        "PRODUCER_IDS_RECORD",
    } <= kinds
    assert ("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 30}) in records
    assert [data["name"] for kind, data in records if kind == "TOPIC_RECORD"][:2] == [
        "kept",
        "gone",
    ]


def test_a_new_directory_holds_what_kafkas_formatting_writes(data) -> None:
    with Node(data):
        pass
    quorum = data / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
    dump = jars.java(DUMP, "--cluster-metadata-decoder", "--files", quorum).stdout
    assert re.search(r"SnapshotHeader .*KRaftVersion .*KRaftVoters .*SnapshotFooter", dump, re.S)
    dump = jars.java(
        DUMP, "--cluster-metadata-decoder", "--files", data / "bootstrap.checkpoint"
    ).stdout
    assert "KRaft bootstrap snapshot" in dump
    assert list(payloads(dump)) == [
        ("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 30}),
        (
            "FEATURE_LEVEL_RECORD",
            {"name": "eligible.leader.replicas.version", "featureLevel": 1},
        ),
        ("FEATURE_LEVEL_RECORD", {"name": "group.version", "featureLevel": 1}),
        ("FEATURE_LEVEL_RECORD", {"name": "transaction.version", "featureLevel": 2}),
    ]
    info = jars.java("kafka.tools.StorageTool", "info", "-c", properties_of(data)).stdout
    assert "Found metadata" in info


def properties_of(data: Path) -> Path:
    file = data.parent / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:1\n"
        f"log.dirs={data}\n"
    )
    return file


@pytest.fixture
def kafka(data) -> Iterator[KafkaProcess]:
    """Return Apache Kafka on `data`, not started; the directory survives it."""
    process = KafkaProcess()
    process.data = data
    yield process
    process.close()


def test_records_of_a_cluster_of_kafka_3_7_have_versions_that_it_decodes(data, tmp_path) -> None:
    """metadata.version 17: a partition has directories (v1) and no eligible leaders (v2)."""
    file = tmp_path / "server.properties"
    clients, controllers = free_ports(2)
    listeners = f"PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controllers}"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners={listeners}\nlog.dirs={data}\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controllers}\n"
    )
    identity = ("--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg", "--release-version", "3.7-IV2")
    barnabas("format", "--config", str(file), *identity, "--standalone")
    with Node(data, {"listeners": listeners}) as node:
        fill(node.bootstrap)
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_partitions([NewPartitions("kept", 3)])["kept"].result(30)
    with Node(data, {"listeners": listeners}) as node:  # an election and a second registration
        check_values(node.bootstrap)
    dump = jars.java(DUMP, "--cluster-metadata-decoder", "--files", data / METADATA_LOG).stdout
    found: dict[str, set[int]] = {}
    for line in dump.splitlines():
        if match := re.search(r'payload: \{"type":"(\w+)","version":(\d+)', line):
            found.setdefault(match[1], set()).add(int(match[2]))
    expected = {
        "FEATURE_LEVEL_RECORD": 0,
        "REGISTER_CONTROLLER_RECORD": 0,
        "REGISTER_BROKER_RECORD": 3,
        "BROKER_REGISTRATION_CHANGE_RECORD": 2,
        "TOPIC_RECORD": 0,
        "PARTITION_RECORD": 1,
        "PARTITION_CHANGE_RECORD": 1,
        "CONFIG_RECORD": 0,
        "REMOVE_TOPIC_RECORD": 0,
        "PRODUCER_IDS_RECORD": 0,
        "BEGIN_TRANSACTION_RECORD": 0,
        "END_TRANSACTION_RECORD": 0,
    }
    assert found.keys() >= expected.keys() - {"BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD"}
    assert {kind: {expected[kind]} for kind in found} == found


def test_kafka_starts_on_our_directory_and_barnabas_on_it_again(data, kafka) -> None:
    with Node(data, {"listeners": own_listeners(kafka)}) as node:
        fill(node.bootstrap)
    kafka.start()
    check(kafka.bootstrap)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic("by-kafka", 3, 1)])["by-kafka"].result(30)
    kafka.stop()
    with Node(data, {"listeners": own_listeners(kafka)}) as node:
        check(node.bootstrap)
        metadata = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=30)
        assert sorted(metadata.topics["by-kafka"].partitions) == [0, 1, 2]


def test_apache_kafka_starts_from_our_snapshot(data, kafka) -> None:
    often = {
        "metadata.log.max.record.bytes.between.snapshots": "500",
        "metadata.max.retention.bytes": "1",
    }
    with Node(data, {"listeners": own_listeners(kafka), **often}) as node:
        fill(node.bootstrap)
    directory = data / "__cluster_metadata-0"
    (snapshot,) = directory.glob("*.checkpoint")
    dump = jars.java(DUMP, "--cluster-metadata-decoder", "--files", snapshot).stdout
    assert "TOPIC_RECORD" in {kind for kind, _ in payloads(dump)}
    kafka.start()
    check(kafka.bootstrap)


def test_barnabas_starts_on_a_directory_of_kafka(data, kafka) -> None:
    kafka.start()
    fill(kafka.bootstrap)
    kafka.stop()
    with Node(data, {"listeners": own_listeners(kafka)}) as node:
        check(node.bootstrap)


def own_listeners(kafka: KafkaProcess) -> str:
    """Return the addresses that Apache Kafka will use: a voter keeps the address that the quorum
    has.
    """
    return f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{kafka.controller_port}"
