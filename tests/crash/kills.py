"""A node killed with -9 at random moments under load: what was acknowledged is there, unchanged.

Idempotent producers write numbered records to several partitions of topics with tiny segments, so
that kills fall into rolls, index writes and checkpoints too. Each record's outcome is kept (offset,
or unknown); after some kills all partitions are read and held to it.
"""

import random
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.process import NodeProcess

TOPIC = "killed"
PARTITIONS = 4
SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.flush.scheduler.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
SMALL_SEGMENTS = {
    "internal.segment.bytes": "30000",
    "index.interval.bytes": "500",
    "retention.ms": "-1",
    "flush.ms": "200",
}


@dataclass
class Load:
    """One idempotent producer and what it was told of each record."""

    bootstrap: str
    codec: str
    acked: dict[tuple[int, int], bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self.stopping = threading.Event()
        self.producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "compression.type": self.codec,
                "linger.ms": 1,
                "batch.size": 8000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        generator = random.Random(self.codec)
        while not self.stopping.is_set():
            value = b"%s %d " % (self.codec.encode(), self.sent)
            value += generator.randbytes(generator.randrange(300))
            try:
                self.producer.produce(TOPIC, value, on_delivery=self.on_delivery)
                self.sent += 1
            except BufferError:
                self.producer.poll(0.05)
            self.producer.poll(0)
            if self.sent % 20 == 0:
                time.sleep(0.004)

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.faults.append(f"{error} for {message.value()[:20]}")
            return
        where = message.partition(), message.offset()
        if where in self.acked:
            self.faults.append(f"{where} acknowledged twice")
        self.acked[where] = message.value()

    def finish(self) -> None:
        """Stop, and wait for the outcome of what is under way."""
        self.stopping.set()
        self.thread.join()
        if self.producer.flush(120):
            self.faults.append("some records have no outcome")


def read_all(bootstrap: str) -> dict[tuple[int, int], bytes]:
    """Read every partition from its start to its end, crcs checked."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "check.crcs": True})
    partitions = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
    ends = {each.partition: consumer.get_watermark_offsets(each, 30)[1] for each in partitions}
    consumer.assign(partitions)
    found: dict[tuple[int, int], bytes] = {}
    left = sum(ends.values())
    while left:
        messages = consumer.consume(min(left, 2000), timeout=20)
        if not messages:
            raise AssertionError(f"{left} records do not come")
        for each in messages:
            if each.error() is not None:
                raise AssertionError(str(each.error()))
            found[each.partition(), each.offset()] = each.value()
        left -= len(messages)
    consumer.close()
    return found


def judge(loads: list[Load], found: dict[tuple[int, int], bytes]) -> list[str]:
    """Say what is lost, changed, twice there or out of order."""
    faults = [fault for load in loads for fault in load.faults]
    for load in loads:
        for where, value in load.acked.items():
            if found.get(where) != value:
                faults.append(f"acknowledged at {where}: {value[:20]}, found {found.get(where)}")
    last: dict[tuple[int, bytes], int] = {}
    for (partition, offset), value in sorted(found.items()):
        codec, number = value.split(b" ")[:2]
        if int(number) <= last.get((partition, codec), -1):
            faults.append(f"{value[:20]} at {partition, offset} is there twice or out of order")
        last[partition, codec] = int(number)
    return faults


def run(*, cycles: int | None = None, seconds: float | None = None, seed: int = 0) -> list[str]:
    """Kill a node again and again; returns the faults found, and prints how it went."""
    generator = random.Random(seed)
    deadline = time.monotonic() + (seconds if seconds is not None else 1e9)
    with NodeProcess(config=SETTINGS) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        topic = NewTopic(TOPIC, PARTITIONS, 1, config=SMALL_SEGMENTS)
        admin.create_topics([topic])[TOPIC].result(30)
        loads = [Load(node.bootstrap, codec) for codec in ("none", "lz4")]
        killed = 0
        while killed != cycles and time.monotonic() < deadline:
            time.sleep(generator.choice((0.05, 0.3, 0.6)) * generator.random() * 2)
            node.kill()
            node.start()
            killed += 1
        for load in loads:
            load.finish()
        node.kill()
        node.start()
        found = read_all(node.bootstrap)
    acked = sum(len(load.acked) for load in loads)
    print(f"killed {killed} times: {acked} records acknowledged, {len(found)} found")
    if acked < 100 * killed**0.5:
        return ["hardly anything was acknowledged"]
    return judge(loads, found)


TABLE = "table"
TABLE_KEYS = 60
CLEANED_SOON = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.05",
    "file.delete.delay.ms": "50",
}


def run_compacted(*, cycles: int, seed: int = 0) -> list[str]:
    """Kill a node that compacts all the time; of each key, the last value must be there."""
    generator = random.Random(seed)
    settings = {**SETTINGS, "log.cleaner.backoff.ms": "20"}
    with NodeProcess(config=settings) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        topic = NewTopic(TABLE, 1, 1, config=CLEANED_SOON)
        admin.create_topics([topic])[TABLE].result(30)
        producer = Producer(
            {
                "bootstrap.servers": node.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.size": 4000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        table: dict[bytes, bytes] = {}
        number = 0
        for _ in range(cycles):
            deadline = time.monotonic() + 0.5 + generator.random() * 0.8
            while time.monotonic() < deadline:
                for _ in range(40):
                    key, value = b"%d" % generator.randrange(TABLE_KEYS), b"%d" % number + b"." * 80
                    producer.produce(TABLE, value, key=key)
                    table[key], number = value, number + 1
                producer.poll(0.004)
            node.kill()
            node.start()
        faults = ["some records have no outcome"] if producer.flush(60) else []
        compacted = sum("compacted log=" in line for line in node.log)
        node.kill()
        node.start()
        found, count = read_table(node.bootstrap)
    print(f"killed {cycles} times, compacted {compacted}: {count} of {number} records are left")
    wrong = {key for key in table if found.get(key) != table[key]} | (found.keys() - table.keys())
    faults += [f"{key}: {found.get(key)} instead of {table.get(key)}" for key in wrong]
    if not compacted:
        faults.append("nothing was compacted")
    return faults


def read_table(bootstrap: str) -> tuple[dict[bytes, bytes], int]:
    """The last value of each key, and how many records there are."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TABLE, 0, 0)])
    found: dict[bytes, bytes] = {}
    count, reached = 0, -1
    while (message := consumer.poll(20)) is not None and message.error() is None:
        if message.offset() <= reached:
            raise AssertionError(f"offset {message.offset()} behind {reached}")
        count, reached = count + 1, message.offset()
        found[message.key()] = message.value()
    consumer.close()
    return found, count
