"""One data directory, served by barnabas and by Apache Kafka alternately: nothing is lost or
changed.

Everything that a client can read is recorded and compared: records with offsets, keys, headers and
timestamps, first and last offsets, offsets by timestamp, committed offsets, configuration.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from barnabas.testing import Node
from compat_tests import jars
from compat_tests.servers import KafkaProcess

pytestmark = [
    jars.needed,
    pytest.mark.barnabas_only,
]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TOPICS = {
    "small-segments": {"segment.bytes": "1048576", "index.interval.bytes": "512"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    # Records are compared on both servers, so neither may compact them during a slow run.
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "1000000",
        "min.compaction.lag.ms": "1000000000000",
    },
}
PARTITIONS = 2
GROUPS = ["readers", "others"]
BASE_MS = 1_700_000_000_000


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaProcess]:
    """Return Apache Kafka on the directory, not started; the directory survives it."""
    process = KafkaProcess({"offsets.topic.num.partitions": "3"})
    process.data = tmp_path / "data"
    yield process
    process.close()


def barnabas(kafka: KafkaProcess) -> Node:
    """Return a node on the directory, and the addresses of Apache Kafka on it."""
    addresses = f"PLAINTEXT://{kafka.bootstrap},CONTROLLER://127.0.0.1:{kafka.controller_port}"
    return Node(kafka.data, {"listeners": addresses, **kafka.properties})


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [
        NewTopic(name, PARTITIONS, 1, config={"retention.ms": "-1", **config})
        for name, config in TOPICS.items()
    ]
    for future in admin.create_topics(new).values():
        future.result(30)


def commit(consumer: Consumer, marks: list[TopicPartition]) -> None:
    """Commit offsets. The client does not repeat it while the coordinator reads its partition."""
    deadline = time.monotonic() + 120
    while True:
        try:
            consumer.commit(offsets=marks, asynchronous=False)
        except KafkaException as error:
            is_loading = error.args[0].code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS
            if not is_loading or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def write(bootstrap: str, turn: int, *, cut: bool = True) -> None:
    """Write records in every codec, a log with deleted records, and committed offsets."""
    for codec in CODECS:
        settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5}
        producer = Producer({**settings, "enable.idempotence": codec != "none"})
        for number in range(400):
            for topic in TOPICS:
                producer.produce(
                    topic,
                    b"%s %d %d " % (codec.encode(), turn, number) + b"." * 500,
                    key=b"%d" % number,
                    partition=number % PARTITIONS,
                    timestamp=BASE_MS + turn * 1_000_000 + number * 1000,
                    headers=[("turn", b"%d" % turn), ("empty", b""), ("none", None)],
                )
        assert producer.flush(60) == 0
    if cut:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        start = TopicPartition("small-segments", 1, 100 * (turn + 1))
        admin.delete_records([start])[start].result(30)
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        marks = [
            TopicPartition(topic, 0, 10 * turn + len(topic), metadata=f"{group} {turn}")
            for topic in TOPICS
        ]
        commit(consumer, marks)
        consumer.close()


def ends(admin: AdminClient, topic: str, partition: int) -> tuple[int, int]:
    """Return first and last offset; a server that just started may not lead its partitions yet.

    A consumer's `get_watermark_offsets` returns the last offset as the first one when the server
    refuses the request for the first offset, and a moment later answers that for the last one.
    """
    place = TopicPartition(topic, partition)

    def offset(spec: OffsetSpec) -> int:
        return admin.list_offsets({place: spec})[place].result(60).offset

    deadline = time.monotonic() + 60
    while True:
        try:
            return offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def read(
    admin: AdminClient, consumer: Consumer, topic: str, partition: int
) -> list[tuple[object, ...]]:
    low, high = ends(admin, topic, partition)
    found: list[tuple[object, ...]] = [("from", low, "to", high)]
    consumer.assign([TopicPartition(topic, partition, low)])
    reached = low
    while reached < high:
        messages = consumer.consume(min(1000, high - reached), timeout=60)
        assert messages, f"{topic}-{partition} ends at {reached}, not {high}"
        for each in messages:
            assert each.error() is None, each.error()
            fields = each.offset(), each.timestamp(), each.key(), each.value(), each.headers()
            found.append(fields)
            reached = each.offset() + 1
    consumer.unassign()  # other requests would wait after its fetches
    return found


def seen(bootstrap: str) -> dict[str, object]:
    """Record everything that clients can read."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "check.crcs": True})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    everything: dict[str, object] = {}
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            everything[f"{topic}-{partition}"] = read(admin, consumer, topic, partition)
        times = [
            TopicPartition(topic, 0, BASE_MS + turn * 1_000_000 + at)
            for turn in range(3)
            for at in (-1, 0, 1, 150_500, 399_000)
        ]
        everything[f"{topic} by time"] = [
            consumer.offsets_for_times([each], 30)[0].offset for each in times
        ]
    consumer.close()
    for group in GROUPS:
        asked = [ConsumerGroupTopicPartitions(group)]
        [answer] = admin.list_consumer_group_offsets(asked).values()
        everything[group] = sorted(
            (each.topic, each.partition, each.offset, each.metadata)
            for each in answer.result(30).topic_partitions
        )
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in TOPICS]
    for resource, future in admin.describe_configs(resources).items():
        everything[f"{resource.name} configuration"] = {
            name: entry.value
            for name, entry in future.result(30).items()
            if name in TOPICS[resource.name] or name == "retention.ms"
        }
    everything["topics"] = sorted(admin.list_topics(timeout=30).topics)
    return everything


class Clinger:
    """Run an idempotent producer across every change of server."""

    def __init__(self, bootstrap: str) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 300,
                "message.timeout.ms": 60_000,
            }
        )
        self.errors: list[object] = []

    def write(self, turn: int) -> None:
        for number in range(50):
            self.producer.produce(
                "small-segments",
                b"clinging %d %d" % (turn, number),
                partition=0,
                on_delivery=lambda error, _: error and self.errors.append(error),
            )
        assert self.producer.flush(60) == 0
        assert self.errors == []


def same(before: dict[str, object], after: dict[str, object]) -> None:
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert after[name] == value, name


def test_a_directory_goes_from_us_to_kafka_and_back(kafka) -> None:
    clinger = Clinger(kafka.bootstrap)
    with barnabas(kafka) as node:
        create_topics(node.bootstrap)
        write(node.bootstrap, 0)
        clinger.write(0)
        ours = seen(node.bootstrap)
    kafka.start()
    same(ours, seen(kafka.bootstrap))
    write(kafka.bootstrap, 1)
    clinger.write(1)
    theirs = seen(kafka.bootstrap)
    assert kafka.stop() in (0, 143)
    with barnabas(kafka) as node:
        same(theirs, seen(node.bootstrap))
        write(node.bootstrap, 2)
        clinger.write(2)
        ours = seen(node.bootstrap)
    kafka.start()
    same(ours, seen(kafka.bootstrap))
    kafka.stop()


def test_a_directory_comes_from_kafka_and_goes_back(kafka) -> None:
    clinger = Clinger(kafka.bootstrap)
    kafka.start()
    create_topics(kafka.bootstrap)
    write(kafka.bootstrap, 0)
    clinger.write(0)
    theirs = seen(kafka.bootstrap)
    kafka.stop()
    with barnabas(kafka) as node:
        same(theirs, seen(node.bootstrap))
        write(node.bootstrap, 1)
        clinger.write(1)
        ours = seen(node.bootstrap)
    kafka.start()
    same(ours, seen(kafka.bootstrap))
    kafka.stop()


def test_directory_of_a_killed_kafka_is_recovered(kafka) -> None:
    """Indexes still have their full size then, and end in zeros."""
    kafka.start()
    create_topics(kafka.bootstrap)
    write(kafka.bootstrap, 0, cut=False)  # Kafka writes log start offsets only every half minute
    theirs = seen(kafka.bootstrap)
    kafka.kill()
    index = kafka.data / "small-segments-0" / f"{0:020d}.index"
    assert any(each.stat().st_size > 1 << 20 for each in index.parent.glob("*.index"))
    with barnabas(kafka) as node:
        same(theirs, seen(node.bootstrap))
    kafka.start()
    same(theirs, seen(kafka.bootstrap))
    kafka.stop()


def fill_table(bootstrap: str, turn: int) -> dict[bytes, bytes]:
    """Write many values for each key, tombstones for a tenth; return the remaining table."""
    table: dict[bytes, bytes] = {}
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
    producer = Producer(settings)
    for number in range(15_000):
        key = b"%d" % (number % 300)
        value = b"%d %d " % (turn, number) + b"." * 150
        table[key] = value
        producer.produce("table", value, key=key)
        if number % 500 == 0:
            assert producer.flush(30) == 0
    for number in range(turn, 300, 10):
        del table[b"%d" % number]
        producer.produce("table", None, key=b"%d" % number)
    assert producer.flush(30) == 0
    return table


def read_table(bootstrap: str) -> tuple[dict[bytes, bytes], int]:
    """Return the table that a reader from the start builds, and the number of records."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "t", "enable.partition.eof": True}
    consumer = Consumer({**settings, "check.crcs": True})
    consumer.assign([TopicPartition("table", 0, 0)])
    table: dict[bytes, bytes] = {}
    count, reached = 0, -1
    while (message := consumer.poll(30)) is not None and message.error() is None:
        assert message.offset() > reached
        count, reached = count + 1, message.offset()
        if message.value() is None:
            table.pop(message.key(), None)
        else:
            table[message.key()] = message.value()
    assert message is not None
    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
    consumer.close()
    return table, count


def wait_until_compacted(bootstrap: str, table: dict[bytes, bytes], written: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        found, count = read_table(bootstrap)
        assert found == table
        if count < written * 0.7:
            return
        assert time.monotonic() < deadline, f"{count} of {written} records are still there"
        time.sleep(0.5)


def test_a_compacted_table_is_the_same_under_both(kafka) -> None:
    kafka.properties |= {"log.cleaner.backoff.ms": "500", "log.cleaner.min.cleanable.ratio": "0.2"}
    config = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    with barnabas(kafka) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("table", 1, 1, config=config)])["table"].result(30)
        table = fill_table(node.bootstrap, 0)
        wait_until_compacted(node.bootstrap, table, 15_000)
    kafka.start()
    assert read_table(kafka.bootstrap)[0] == table
    table = fill_table(kafka.bootstrap, 1)
    wait_until_compacted(kafka.bootstrap, table, 15_000)
    kafka.stop()
    with barnabas(kafka) as node:
        assert read_table(node.bootstrap)[0] == table
        table = fill_table(node.bootstrap, 2)
        wait_until_compacted(node.bootstrap, table, 15_000)
