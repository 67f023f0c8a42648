"""Consume, transform, produce: copies a topic in transactions with offsets, until killed.

`python -m compat_tests.transform BOOTSTRAP SOURCE SINK GROUP TRANSACTIONAL_ID` prints a line for
each transaction that it commits.
"""

import sys
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

BATCH = 20


def insist(call: Callable[[], object]) -> None:
    """Repeat a call as long as librdkafka reports a retriable error."""
    while True:
        try:
            call()
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
        else:
            return


class Transformer:
    """One instance, as an application would write it with confluent-kafka."""

    def __init__(
        self, bootstrap: str, source: str, sink: str, group: str, transactional_id: str
    ) -> None:
        self.sink = sink
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
            }
        )
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 20_000,
                "linger.ms": 1,
                # When its only broker is down for a moment, librdkafka 2.16 forgets it, and then
                # waits for it without limit as the group's coordinator (its issues 5511 and 5456).
                "metadata.recovery.strategy": "none",
            }
        )
        self.consumer.subscribe([source])
        self.producer.init_transactions(60)

    def step(self) -> int:
        """Copy one batch in a transaction; return how many records were committed."""
        messages = [
            message for message in self.consumer.consume(BATCH, 0.5) if message.error() is None
        ]
        if not messages:
            return 0
        try:
            self._copy(messages)
        except KafkaException as failure:
            if failure.args[0].fatal():
                raise
            insist(lambda: self.producer.abort_transaction(60))
            self._rewind()
            return 0
        return len(messages)

    def _copy(self, messages: list[Message]) -> None:
        producer = self.producer
        producer.begin_transaction()
        for message in messages:
            producer.produce(
                self.sink, value=message.value().upper(), partition=message.partition()
            )
        positions = self.consumer.position(self.consumer.assignment())
        group = self.consumer.consumer_group_metadata()
        insist(lambda: producer.send_offsets_to_transaction(positions, group, 60))
        insist(lambda: producer.commit_transaction(60))

    def _rewind(self) -> None:
        """Seek to the committed offsets of the group."""
        for committed in self.consumer.committed(self.consumer.assignment(), 60):
            start = max(committed.offset, 0)
            self.consumer.seek(TopicPartition(committed.topic, committed.partition, start))

    def close(self) -> None:
        self.consumer.close()


def main(*arguments: str) -> None:
    transformer = Transformer(*arguments)
    while True:
        copied = transformer.step()
        if copied:
            sys.stdout.write(f"{time.time():.3f} {copied}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
