"""Exactly-once over kill -9 of the node that coordinates the transactions."""

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.coordinator.core.routing import partition_for
from barnabas.testing.eventually import wait_until
from barnabas.testing.process import ClusterProcess

RECORDS = 120
BATCH = 5
PARTITIONS = 3
TIMEOUT_S = 60
CONFIG = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "min.insync.replicas": "2",
}


class Copy:
    """Copies one topic to another, with the offsets in the same transactions, in a thread."""

    def __init__(self, bootstrap: str, transactional_id: str, group_id: str) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
        self._transactional_id = transactional_id
        self._group_id = group_id
        self.position = 0
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Wait for the last record; raises what ended the copy."""
        self._thread.join(30)
        if self.failure is not None:
            raise self.failure
        assert self.position == RECORDS

    def _run(self) -> None:
        try:
            self._copy()
        except BaseException as error:
            self.failure = error

    def _copy(self) -> None:
        consumer = Consumer({**self._settings, "group.id": self._group_id})
        consumer.assign([TopicPartition("in", 0, 0)])
        producer: Producer | None = None
        deadline = time.monotonic() + 90
        while self.position < RECORDS and time.monotonic() < deadline:
            try:
                if producer is None:
                    producer = self._producer()
                    self._rewind(consumer)
                self._copy_some(consumer, producer)
            except KafkaException as error:
                if error.args[0].txn_requires_abort() and producer is not None:
                    producer.abort_transaction(TIMEOUT_S)
                    self._rewind(consumer)
                elif not error.args[0].retriable():
                    producer = None
        consumer.close()

    def _producer(self) -> Producer:
        producer = Producer({**self._settings, "transactional.id": self._transactional_id})
        producer.init_transactions(TIMEOUT_S)
        return producer

    def _rewind(self, consumer: Consumer) -> None:
        (committed,) = consumer.committed([TopicPartition("in", 0)], TIMEOUT_S)
        self.position = max(0, committed.offset)
        consumer.seek(TopicPartition("in", 0, self.position))

    def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        messages = [m for m in consumer.consume(BATCH, 1.0) if not m.error()]
        if not messages:
            return
        assert messages[0].offset() == self.position
        producer.begin_transaction()
        for message in messages:
            producer.produce("out", message.value(), partition=message.offset() % PARTITIONS)
        position = messages[-1].offset() + 1
        producer.send_offsets_to_transaction(
            [TopicPartition("in", 0, position)], consumer.consumer_group_metadata(), TIMEOUT_S
        )
        producer.commit_transaction(TIMEOUT_S)
        self.position = position


def prepare(bootstrap: str) -> AdminClient:
    """Create the topics, write the input, and have the coordinators' topics created."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic("in", 1, 3), NewTopic("out", PARTITIONS, 3)]
    for created in admin.create_topics(topics).values():
        created.result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("in", str(number), partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    first = Producer({"bootstrap.servers": bootstrap, "transactional.id": "first"})
    first.init_transactions(TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})
    consumer.committed([TopicPartition("in", 0)], TIMEOUT_S)
    consumer.close()
    return admin


def leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    """Return the leader of each partition, once the node that answers knows the topic."""
    found: dict[int, int] = {}

    def is_known() -> bool:
        partitions = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        found.update({index: partition.leader for index, partition in partitions.items()})
        return len(found) == PARTITIONS

    wait_until(is_known, TIMEOUT_S)
    return found


def key_where(chosen: Callable[[int], bool], leaders: dict[int, int], prefix: str) -> str:
    """Return a key whose coordinator is a chosen node."""
    names = (f"{prefix}{number}" for number in range(1000))
    return next(n for n in names if chosen(leaders[partition_for(n, PARTITIONS)]))


def read_committed(bootstrap: str) -> dict[int, list[int]]:
    """Return the committed values of each partition, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("out", index, 0) for index in range(PARTITIONS)])
    values: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
    ended: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(100, 0.2):
            index = message.partition()
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    ended.add(index)
            else:
                values[index].append(int(message.value()))
    consumer.close()
    return values


def test_copy_is_exactly_once_when_its_coordinator_is_killed() -> None:
    """The group has its coordinator on another node.

    When that one leaves the metadata, librdkafka waits for it until the end of the transaction.
    """
    with ClusterProcess(3, config=CONFIG) as cluster:
        admin = prepare(cluster.bootstrap)
        coordinators = leaders(admin, "__transaction_state")
        killed = coordinators[partition_for("copy", PARTITIONS)]
        group_id = key_where(
            lambda node_id: node_id != killed, leaders(admin, "__consumer_offsets"), "g"
        )
        copy = Copy(cluster.bootstrap, "copy", group_id)
        copy.start()
        deadline = time.monotonic() + TIMEOUT_S
        while copy.position < RECORDS // 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        cluster.nodes[killed].kill()
        at_kill = copy.position
        time.sleep(0.5)
        cluster.nodes[killed].start()
        copy.join()
        assert 0 < at_kill < RECORDS
        assert leaders(admin, "__transaction_state") != coordinators
        assert read_committed(cluster.bootstrap) == {
            index: list(range(index, RECORDS, PARTITIONS)) for index in range(PARTITIONS)
        }
