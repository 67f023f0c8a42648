"""Clients of a node that is killed: each load is a thread that records the outcome of every call.

Each value is written only once in a history (`barnabas.testing.history`), so a lost, changed,
duplicate or resurrected value is found.
"""

import random
import threading
import time
from collections.abc import Callable

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.history import History, Operation

PLAIN, SHORT, LEDGER, TABLE = "plain", "short", "ledger", "table"
PARTITIONS = {PLAIN: 4, SHORT: 2, LEDGER: 3, TABLE: 1}
COMMITS_GROUP = "commits"
TABLE_KEYS = 60
CLIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}
PRODUCER = {
    **CLIENT,
    "enable.idempotence": True,
    "linger.ms": 1,
    "batch.size": 8000,
    "message.timeout.ms": 120_000,
}
# The pause between two steps of a load, so that the reader keeps up.
_PAUSE_S = 0.02
# The number of retries of a call that fails because of a kill.
_ATTEMPTS = 60


class Load(threading.Thread):
    """One client, which calls `step` repeatedly; `faults` has the wrong answers it received."""

    def __init__(self, bootstrap: str, history: History, name: str, seed: int) -> None:
        super().__init__(name=name)
        self.bootstrap = bootstrap
        self.history = history
        self.generator = random.Random(f"{name} {seed}")
        self.faults: list[str] = []
        self.acked = 0
        self._number = 0
        self._stopping = threading.Event()

    def run(self) -> None:
        """Call `step` until `stop`; then wait for outstanding calls."""
        try:
            while not self._stopping.is_set():
                self.step()
            self.settle()
        except Exception as error:
            self.faults.append(f"{self.name}: {error!r}")

    def step(self) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Wait for the outcome of outstanding calls."""

    def finish(self) -> None:
        """Stop, and return when all outcomes are known that can be known."""
        self._stopping.set()
        self.join()

    def new_value(self) -> str:
        """Return a value that no other load writes; its number rises with every call."""
        self._number += 1
        padding = self.generator.randbytes(self.generator.randrange(150)).hex()
        return f"{self.name} {self._number} {padding}"

    def flushed(self, producer: Producer) -> None:
        if producer.flush(120):
            self.faults.append(f"{self.name}: some records have no outcome")


class Idempotent(Load):
    """A producer of numbered records to all partitions of a topic."""

    def __init__(self, bootstrap: str, history: History, topic: str, codec: str, seed: int) -> None:
        super().__init__(bootstrap, history, f"{topic}-{codec}", seed)
        self.topic = topic
        self.producer = Producer(
            {**PRODUCER, "bootstrap.servers": bootstrap, "compression.type": codec}
        )

    def step(self) -> None:
        for _ in range(20):
            partition, value = self.generator.randrange(PARTITIONS[self.topic]), self.new_value()
            operation = self.history.begin(self.name)
            operation.sent(self.topic, partition, value)
            try:
                self.producer.produce(
                    self.topic, value, partition=partition, on_delivery=self._delivery_of(operation)
                )
            except BufferError:
                operation.fail()
        self.producer.poll(0)
        time.sleep(_PAUSE_S)

    def _delivery_of(self, operation: Operation) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.faults.append(f"{self.name}: {error}")
                return
            sent = operation.sends[0]
            operation.acked(*sent.partition, sent.value, message.offset())
            operation.ok()
            self.acked += 1

        return delivered

    def settle(self) -> None:
        self.flushed(self.producer)


class Transactional(Load):
    """A producer whose transactions write to several partitions; it aborts a quarter of them.

    The transactions do not commit offsets of a group: after a reconnect, librdkafka 2.16 may wait
    forever for the connection that it needs for that, without a request.
    """

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        super().__init__(bootstrap, history, LEDGER, seed)
        self._producer: Producer | None = None

    def _ready_producer(self) -> Producer:
        if self._producer is None:
            producer = Producer(
                {
                    **PRODUCER,
                    "bootstrap.servers": self.bootstrap,
                    "transactional.id": "ledger",
                    "message.timeout.ms": 50_000,
                    "transaction.timeout.ms": 60_000,
                }
            )
            self._again(lambda: producer.init_transactions(20))
            self._producer = producer
        return self._producer

    def _again(self, call: Callable[[], object]) -> None:
        """Repeat a call until its error is not retriable."""
        for attempt in range(_ATTEMPTS):
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable() or attempt + 1 == _ATTEMPTS:
                    raise
                time.sleep(0.05)
            else:
                return

    def step(self) -> None:
        producer = self._ready_producer()
        operation = self.history.begin(self.name)
        committing = False
        try:
            producer.begin_transaction()
            for _ in range(self.generator.randrange(1, 12)):
                partition, value = self.generator.randrange(PARTITIONS[LEDGER]), self.new_value()
                operation.sent(LEDGER, partition, value)
                producer.produce(LEDGER, value, partition=partition)
                if self.generator.random() < 0.1:
                    producer.flush(0.2)
            if self.generator.random() < 0.25:
                self._again(lambda: producer.abort_transaction(20))
                operation.fail()
                return
            committing = True
            self._again(lambda: producer.commit_transaction(20))
            operation.ok()
            self.acked += len(operation.sends)
        except KafkaException as error:
            self._give_up(producer, operation, error.args[0], committing=committing)

    def _give_up(
        self, producer: Producer, operation: Operation, error: KafkaError, *, committing: bool
    ) -> None:
        if error.txn_requires_abort():
            self._again(lambda: producer.abort_transaction(20))
            operation.fail()
            return
        self._producer = None  # init_transactions of the next producer ends its open transaction
        if not committing:
            self._ready_producer()
            operation.fail()


class Table(Load):
    """A producer to a compacted topic: the last value of each key must stay."""

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        super().__init__(bootstrap, history, TABLE, seed)
        self.last: dict[str, str] = {}
        self.producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap, "batch.size": 4000})

    def step(self) -> None:
        for _ in range(30):
            key, value = str(self.generator.randrange(TABLE_KEYS)), self.new_value()
            try:
                self.producer.produce(TABLE, value, key=key, on_delivery=self._delivered)
            except BufferError:
                break
            self.last[key] = value
        self.producer.poll(0)
        time.sleep(_PAUSE_S)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.faults.append(f"{self.name}: {error}")
        self.acked += error is None

    def settle(self) -> None:
        self.flushed(self.producer)


class Topics(Load):
    """An administrator that creates and deletes topics, writes, and deletes records by offset."""

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        super().__init__(bootstrap, history, "topics", seed)
        self.kept: list[str] = []
        self.deleted: list[str] = []
        self.low = 0  # DeleteRecords of the first partition of SHORT was answered with this
        self._admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
        self._producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap})

    def step(self) -> None:
        self._number += 1
        topic = f"made-{self._number}"
        self._again(lambda: self._admin.create_topics([NewTopic(topic, 2, 1)])[topic], "ALREADY")
        operation = self.history.begin(self.name)
        for partition in range(2):
            value = f"{topic} {partition}"
            operation.sent(topic, partition, value)
            self._producer.produce(topic, value, partition=partition)
        self.flushed(self._producer)
        if self.generator.random() < 0.5:
            operation.ok()
            self.kept.append(topic)
            self.acked += 2
        else:
            self.history.operations.remove(operation)
            self._again(lambda: self._admin.delete_topics([topic])[topic], "UNKNOWN_TOPIC")
            self.deleted.append(topic)
        self._delete_records()
        time.sleep(0.2)

    def _delete_records(self) -> None:
        wanted = TopicPartition(SHORT, 0, self.low + self.generator.randrange(60))
        try:
            done = self._admin.delete_records([wanted], operation_timeout=5)[wanted]
            self.low = max(self.low, done.result(10).low_watermark)
        except KafkaException:
            return  # no record yet, or the node is down

    def _again(self, call: Callable[[], object], done: str) -> None:
        """Repeat a request until the node answers that it is done."""
        for _ in range(_ATTEMPTS):
            try:
                call().result(20)
            except KafkaException as error:
                if done in error.args[0].name():
                    return
                time.sleep(0.1)
            else:
                return
        raise TimeoutError(done)


class Commits(Load):
    """A consumer that commits rising offsets and records which were acknowledged."""

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        super().__init__(bootstrap, history, COMMITS_GROUP, seed)
        self.sure = dict.fromkeys(range(PARTITIONS[PLAIN]), -1001)
        self.tried = dict(self.sure)
        self._consumer = Consumer(
            {**CLIENT, "bootstrap.servers": bootstrap, "group.id": COMMITS_GROUP}
        )

    def step(self) -> None:
        self._number += 1
        partition = self.generator.randrange(PARTITIONS[PLAIN])
        self.tried[partition] = self._number
        try:
            [answer] = self._consumer.commit(
                offsets=[TopicPartition(PLAIN, partition, self._number)], asynchronous=False
            )
        except KafkaException:
            return
        if answer.error is None:
            self.sure[partition] = self._number
            self.acked += 1
        time.sleep(0.003)

    def settle(self) -> None:
        self._consumer.close()


class Reader(Load):
    """A read_committed consumer that reads all records as they are written."""

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        super().__init__(bootstrap, history, "reader", seed)
        self._consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "check.crcs": True,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign(
            [
                TopicPartition(topic, n, 0)
                for topic in (PLAIN, LEDGER)
                for n in range(PARTITIONS[topic])
            ]
        )

    def step(self) -> None:
        messages = self._consumer.consume(500, timeout=0.2)
        if not messages:
            return
        operation = self.history.begin(self.name)
        for each in messages:
            error = each.error()
            if error is None:
                operation.read(each.topic(), each.partition(), each.offset(), each.value().decode())
            elif error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
                raise AssertionError(f"records that were read are missing: {error}")
        self.acked += len(operation.reads)
        operation.ok()

    def settle(self) -> None:
        self._consumer.close()
