"""Kill a server under load, or stop it, and restart it: no acknowledged record is lost."""

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.servers import ServerProcess

pytestmark = pytest.mark.timeout(300)

PARTITIONS = 3
LOAD_S = 1.5


class Load:
    """Producers that write numbered records and keep the acknowledged ones."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        self.topic = topic
        self.acked: dict[tuple[int, int], bytes] = {}
        self.twice: list[tuple[int, int]] = []
        self.failed = 0
        self.sent = 0
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **named})
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            return
        where = (message.partition(), message.offset())
        if where in self.acked:
            self.twice.append(where)
        self.acked[where] = message.value()

    def run(self) -> None:
        while not self.stopping.is_set():
            value = b"%d:" % self.sent + b"." * (self.sent % 400)
            try:
                self.producer.produce(self.topic, value=value, on_delivery=self.on_delivery)
                self.sent += 1
            except BufferError:
                self.producer.poll(0.05)
            self.producer.poll(0)
            if self.sent % 200 == 0:
                time.sleep(0.005)

    def finish(self) -> None:
        """Stop writing and wait for the outcome of requests in flight."""
        self.stopping.set()
        self.thread.join()
        assert self.producer.flush(90) == 0


def make_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def read_everything(bootstrap: str, topic: str) -> dict[tuple[int, int], bytes]:
    """Read each partition to its end, and check the crc of every batch."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "after-the-kill",
            "check.crcs": True,
            "enable.auto.commit": False,
        }
    )
    partitions = [TopicPartition(topic, p, 0) for p in range(PARTITIONS)]
    ends = {p.partition: consumer.get_watermark_offsets(p, 30)[1] for p in partitions}
    consumer.assign(partitions)
    found: dict[tuple[int, int], bytes] = {}
    while len(found) < sum(ends.values()):
        wanted = min(2000, sum(ends.values()) - len(found))  # with more it would wait to the end
        messages = consumer.consume(wanted, timeout=60)
        assert messages, f"{len(found)} of {sum(ends.values())} records came"
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            found[message.partition(), message.offset()] = message.value()
    consumer.close()
    return found


@pytest.fixture
def own_server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    server = start_server()
    yield server
    server.close()


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_acknowledged_records_survive_kills_under_load(own_server, unique, idempotent) -> None:
    topic = unique("killed")
    make_topic(own_server.bootstrap, topic)
    load = Load(
        own_server.bootstrap, topic, enable_idempotence=idempotent, reconnect_backoff_max_ms=500
    )
    for _ in range(3):
        time.sleep(LOAD_S)
        own_server.kill()
        own_server.start()
    time.sleep(LOAD_S)
    load.finish()
    found = read_everything(own_server.bootstrap, topic)
    assert len(load.acked) > 1000
    assert load.twice == []
    lost = {where for where, value in load.acked.items() if found.get(where) != value}
    assert lost == set()
    if idempotent:
        numbers = [value.split(b":")[0] for value in found.values()]
        assert len(set(numbers)) == len(numbers), "a record was written twice"
        assert len(numbers) == load.sent - load.failed
        assert load.failed == 0


def test_all_data_is_present_after_a_stop(own_server, unique) -> None:
    topic, group = unique("stopped"), unique("g")
    make_topic(own_server.bootstrap, topic)
    load = Load(own_server.bootstrap, topic)
    time.sleep(LOAD_S)
    load.finish()
    marks = [TopicPartition(topic, p, p + 3, metadata=f"m{p}") for p in range(PARTITIONS)]
    committer = Consumer({"bootstrap.servers": own_server.bootstrap, "group.id": group})
    committer.commit(offsets=marks, asynchronous=False)
    committer.close()
    assert own_server.stop() in (0, 143)
    own_server.start()
    assert read_everything(own_server.bootstrap, topic) == load.acked
    reader = Consumer({"bootstrap.servers": own_server.bootstrap, "group.id": group})
    found = reader.committed([TopicPartition(topic, p) for p in range(PARTITIONS)], 30)
    reader.close()
    assert [(p.offset, p.metadata) for p in found] == [(3, "m0"), (4, "m1"), (5, "m2")]


def test_committed_offsets_and_topics_survive_a_kill(own_server, unique) -> None:
    topic, group = unique("survivor"), unique("g")
    make_topic(own_server.bootstrap, topic)
    committer = Consumer({"bootstrap.servers": own_server.bootstrap, "group.id": group})
    for offset in range(20):
        mark = TopicPartition(topic, offset % PARTITIONS, offset)
        committer.commit(offsets=[mark], asynchronous=False)
    own_server.kill()
    own_server.start()
    committer.close()
    reader = Consumer({"bootstrap.servers": own_server.bootstrap, "group.id": group})
    found = reader.committed([TopicPartition(topic, p) for p in range(PARTITIONS)], 30)
    reader.close()
    assert [p.offset for p in found] == [18, 19, 17]


def test_waiting_consumer_continues_after_a_restart(own_server, unique) -> None:
    topic, group = unique("waiting"), unique("g")
    make_topic(own_server.bootstrap, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": own_server.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
        }
    )
    consumer.subscribe([topic])
    producer = Producer({"bootstrap.servers": own_server.bootstrap})

    def passes(value: bytes) -> bool:
        producer.produce(topic, value=value)
        assert producer.flush(60) == 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None and message.value() == value:
                return True
        return False

    assert passes(b"before")
    own_server.kill()
    own_server.start()
    assert passes(b"after")
    consumer.close()
