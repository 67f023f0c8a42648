"""Copy a topic in transactions: consume, produce and commit the offsets together."""

import itertools
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

_numbers = itertools.count(1)


class TransactionalCopy:
    """A thread that copies until `finish`; a failed transaction is aborted and read again."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._bootstrap, self._source, self._target = bootstrap, source, target
        self._name = f"copy-{next(_numbers)}"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: BaseException | None = None
        self.copied = 0
        self.longest_pause_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def finish(self, records: int, timeout_s: float = 90) -> None:
        """Stop after this number of records. Raises what ended the copy, or TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while self.copied < records and self._thread.is_alive():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.copied} of {records} records were copied")
            time.sleep(0.05)
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._copy_until_fenced()
        except BaseException as error:
            self._failure = error

    def _copy_until_fenced(self) -> None:
        """Copy with one producer; return when it is fenced."""
        shared = {"bootstrap.servers": self._bootstrap, "log_level": 0}
        producer = Producer({**shared, "transactional.id": self._name})
        consumer = Consumer(
            {
                **shared,
                "group.id": self._name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            _until_done(lambda: producer.init_transactions(60))
            consumer.subscribe([self._source])
            last = time.monotonic()
            while not self._stopping.is_set():
                messages = [each for each in consumer.consume(500, 0.2) if not each.error()]
                if not messages:
                    continue
                producer.begin_transaction()
                for each in messages:
                    producer.produce(self._target, each.value(), partition=each.partition())
                ends = {each.partition(): each.offset() + 1 for each in messages}
                offsets = [TopicPartition(self._source, at, end) for at, end in ends.items()]
                metadata = consumer.consumer_group_metadata()
                _until_done(
                    lambda: producer.send_offsets_to_transaction(offsets, metadata, 30)  # noqa: B023
                )
                _until_done(lambda: producer.commit_transaction(60))
                self.copied += len(messages)
                now = time.monotonic()
                self.longest_pause_s = max(self.longest_pause_s, now - last)
                last = now
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                _until_done(lambda: producer.abort_transaction(60))
            elif not error.args[0].fatal():
                raise
        finally:
            consumer.close()


def _until_done(call) -> None:
    """Repeat a call while its error is retriable."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
