"""Makes `directory-7f096a2.tar.xz`: run it with the code of commit 7f096a2 on PYTHONPATH.

The test `tests/server/test_old_directory.py` opens the directory and expects what is written here.
"""

import sys
import tarfile
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from barnabas.testing import Node

SMALL = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "metadata.log.max.record.bytes.between.snapshots": "1500",
}


def main(archive: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        with Node(data=data, config=SMALL) as node:
            create_topics(node.bootstrap)
            produce(node.bootstrap)
            transact(node.bootstrap)
        with Node(data=data, config=SMALL) as node:
            commit_offsets(node.bootstrap)
            delete_topic(node.bootstrap)
        with tarfile.open(archive, "w:xz") as tar:
            tar.add(data, arcname="data")


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("plain", 3, 1),
        NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"}),
        NewTopic("transactional", 1, 1),
        NewTopic("deleted", 1, 1),
    ]
    for future in admin.create_topics(topics).values():
        future.result(60)
    alter(admin, ConfigResource(ConfigResource.Type.TOPIC, "plain"), "retention.ms", "-1")
    alter(admin, ConfigResource(ConfigResource.Type.BROKER, "1"), "log.cleaner.threads", "2")


def delete_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics(["deleted"])["deleted"].result(60)


def alter(admin: AdminClient, resource: ConfigResource, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)


def produce(bootstrap: str) -> None:
    for codec in ("none", "gzip", "lz4", "zstd", "snappy"):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for number in range(20):
            producer.produce("plain", f"{codec}-{number}", partition=number % 3)
            producer.produce("compacted", f"{codec}-{number}", key=str(number % 4))
        producer.flush(60)


def transact(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
    producer.init_transactions(60)
    for name, ends_well in (("first", True), ("aborted", False), ("second", True)):
        producer.begin_transaction()
        for number in range(5):
            producer.produce("transactional", f"{name}-{number}")
        producer.flush(60)
        if ends_well:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


def commit_offsets(bootstrap: str) -> None:
    for group in ("readers", "others"):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        offsets = [TopicPartition("plain", number, 7 + number) for number in range(3)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


if __name__ == "__main__":
    main(sys.argv[1])
