"""A directory that commit 7f096a2 wrote still opens, with all that was in it.

`tests/data/make_old_directory.py` made it: topics with all codecs, a compacted one, transactions,
committed offsets, dynamic configuration, two starts and a metadata snapshot.
"""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from barnabas.testing import Node

ARCHIVE = Path(__file__).parent.parent / "data" / "directory-7f096a2.tar.xz"
CODECS = ("none", "gzip", "lz4", "zstd", "snappy")
# The records are as old as the archive: nothing of it may expire.
CONFIG = {"log.retention.hours": "-1", "offsets.retention.minutes": "1000000000"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")
    with Node(data=tmp_path / "data", config=CONFIG) as node:
        yield node


def read(node: Node, topic: str, partitions: int = 1) -> list[tuple[str | None, str]]:
    """All committed records of a topic, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "test",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    found: list[tuple[str | None, str]] = []
    for number in range(partitions):
        consumer.assign([TopicPartition(topic, number, 0)])
        while True:
            message = consumer.poll(60)
            assert message is not None
            if message.error():
                break
            key, value = message.key(), message.value()
            assert value is not None
            found.append((key.decode() if key else None, value.decode()))
    consumer.close()
    return found


def test_old_directory_opens_with_all_that_was_written(node: Node) -> None:
    plain = [value for _, value in read(node, "plain", 3)]
    assert plain == [
        f"{codec}-{number}"
        for partition in range(3)
        for codec in CODECS
        for number in range(partition, 20, 3)
    ]
    assert read(node, "compacted") == [
        (str(number % 4), f"{codec}-{number}") for codec in CODECS for number in range(20)
    ]
    assert [value for _, value in read(node, "transactional")] == [
        f"{name}-{number}" for name in ("first", "second") for number in range(5)
    ]


def test_old_directory_keeps_offsets_topics_and_configuration(node: Node) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for group in ("readers", "others"):
        wanted = [ConsumerGroupTopicPartitions(group)]
        offsets = admin.list_consumer_group_offsets(wanted)[group].result(60)
        told = {each.partition: each.offset for each in offsets.topic_partitions}
        assert told == {0: 7, 1: 8, 2: 9}
    topics = set(admin.list_topics(timeout=60).topics)
    assert {"plain", "compacted", "transactional"} <= topics
    assert "deleted" not in topics
    assert value_of(admin, ConfigResource.Type.TOPIC, "plain", "retention.ms") == "-1"
    assert value_of(admin, ConfigResource.Type.BROKER, "1", "log.cleaner.threads") == "2"


def value_of(admin: AdminClient, kind: ConfigResource.Type, resource: str, name: str) -> str:
    (future,) = admin.describe_configs([ConfigResource(kind, resource)]).values()
    return future.result(60)[name].value


def test_old_directory_takes_new_records_and_transactions(node: Node) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "writer"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("transactional", "third")
    producer.commit_transaction(60)
    assert read(node, "transactional")[-1] == (None, "third")
    data = node.data
    node.stop()
    epoch = json.loads((data / ".kafka_cleanshutdown").read_text())["brokerEpoch"]
    assert epoch > 0
    node.start()
    assert read(node, "transactional")[-1] == (None, "third")
