"""Records, groups and properties at both sides of a mirror, as its tests write and compare them."""

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from compat_tests.pace import WAIT_S
from compat_tests.servers import ServerProcess

NOW_MS = int(time.time() * 1000)


def create(server: ServerProcess, topic: str, partitions: int, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(30)


def fill(server: ServerProcess, topic: str, count: int, partitions: int) -> None:
    """Write records with keys, headers and times; every third transaction is aborted."""
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": f"fill-{topic}",
            "compression.type": "lz4",
        }
    )
    producer.init_transactions(30)
    for batch in range(0, count, 10):
        producer.begin_transaction()
        for number in range(batch, batch + 10):
            producer.produce(
                topic,
                None if number % 7 == 0 else b"value %d" % number,
                b"key %d" % (number % 50),
                number % partitions,
                timestamp=NOW_MS - 100_000 + number,
                headers=[("number", b"%d" % number), ("none", None)],
            )
        if batch % 30 == 20:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def contents(server: ServerProcess, topic: str, partitions: int) -> list[list[Any]]:
    """Return what read_committed shows of each partition, without the offsets."""
    return [[each[1:] for each in records(server, topic, number)] for number in range(partitions)]


def records(server: ServerProcess, topic: str, partition: int) -> list[Any]:
    """Return offset, key, value, headers and time of the committed records of a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while True:
        message = consumer.poll(1)
        assert time.monotonic() < deadline, f"{topic}-{partition} has no end"
        if message is None:
            continue
        if message.error() is not None:
            consumer.close()
            return found
        found.append(
            (
                message.offset(),
                message.key(),
                message.value(),
                message.headers(),
                message.timestamp(),
            )
        )


def latest(found: list[Any]) -> list[Any]:
    """Return the last record of each key, in order: each side compacts when it wants.

    Records end with key, value, headers and time.
    """
    by_key = {each[-4]: number for number, each in enumerate(found)}
    return [found[number] for number in sorted(by_key.values())]


def consumer(server: ServerProcess, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": server.bootstrap, "group.id": group})


def commit(server: ServerProcess, group: str, position: TopicPartition) -> None:
    client = consumer(server, group)
    client.commit(offsets=[position], asynchronous=False)
    client.close()


def committed(server: ServerProcess, group: str, topic: str) -> tuple[int, str | None]:
    client = consumer(server, group)
    [found] = client.committed([TopicPartition(topic, 0)], 30)
    client.close()
    return found.offset, found.metadata


def ends(server: ServerProcess, topic: str, partition: int) -> tuple[int, int]:
    """Return the log start offset and the end of a partition."""
    client = consumer(server, "unused")
    found = client.get_watermark_offsets(TopicPartition(topic, partition), 30)
    client.close()
    return found


def configs(server: ServerProcess, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(30)
    return {name: entry.value for name, entry in found.items()}


def is_caught_up(job: Any) -> bool:
    lag = job.progress().lag
    return bool(lag) and all(each.lag == 0 for each in lag)
