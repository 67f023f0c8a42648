"""Copy a topic in transactions: consume, produce and commit the offsets together.

Several copies may share a target: each puts its own name before the values.
"""

import itertools
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.testing.eventually import wait_until
from compat_tests.client_security import librdkafka

_numbers = itertools.count(1)

_STALL_S = 15
"""A worker without a commit for this time is replaced, as a supervisor of real workers does.

librdkafka 2.16 can wait without end in `send_offsets_to_transaction`, in spite of its timeout, when
the group's coordinator has ended meanwhile (confluentinc/librdkafka issues 5456 and 5511).
"""


class TransactionalCopy:
    """Workers that copy until `finish`; a failed transaction is aborted and read again.

    There is one worker at a time; its transactional id fences the one before it.
    """

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._bootstrap, self._source, self._target = bootstrap, source, target
        self.name = f"copy-{next(_numbers)}"
        self._stopping = threading.Event()
        self._worker = 0
        self._thread: threading.Thread
        self._failure: BaseException | None = None
        self.copied = 0
        self.stalls = 0
        self.errors: list[str] = []
        self.pause_s = 0.0

    def start(self) -> None:
        self._worker += 1
        self._thread = threading.Thread(target=self._run, args=(self._worker,), daemon=True)
        self._thread.start()

    def wait_for_commit(self, timeout_s: float = 60) -> None:
        """Wait for the first commit. Raises TimeoutError."""
        wait_until(lambda: self.copied, timeout_s)

    def finish(self, records: int, timeout_s: float = 90) -> None:
        """Stop after this number of records. Raises what ended the copy, or TimeoutError."""
        deadline = time.monotonic() + timeout_s
        moved, copied = time.monotonic(), self.copied
        while self.copied < records and self._thread.is_alive():
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError(f"{self.copied} of {records} records were copied")
            if self.copied != copied:
                moved, copied = now, self.copied
            elif now - moved > _STALL_S:
                self.stalls += 1
                moved = now
                self.start()
            time.sleep(0.05)
        self._stopping.set()
        self._thread.join(30)
        if self._failure is not None:
            raise self._failure

    def copy_of(self, value: str) -> str:
        """Return the value that a copy of `value` has."""
        return f"{self.name}|{value}"

    def _is_current(self, worker: int) -> bool:
        return worker == self._worker and not self._stopping.is_set()

    def _run(self, worker: int) -> None:
        try:
            while self._is_current(worker):
                self._copy_until_fenced(worker)
        except BaseException as error:
            if self._is_current(worker):
                self._failure = error

    def _copy_until_fenced(self, worker: int) -> None:
        """Copy with one producer; return when it is fenced."""
        shared = {**librdkafka(self._bootstrap), "log_level": 0}
        producer = Producer({**shared, "transactional.id": self.name})
        consumer = Consumer(
            {
                **shared,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6_000,
                "max.poll.interval.ms": 10_000,  # a worker that stalls leaves the group
            }
        )
        try:
            _until_done(lambda: producer.init_transactions(60))
            consumer.subscribe([self._source])
            last = time.monotonic()
            while self._is_current(worker):
                messages = [each for each in consumer.consume(500, 0.2) if not each.error()]
                if not messages:
                    continue
                producer.begin_transaction()
                for each in messages:
                    value = self.copy_of(each.value().decode())
                    producer.produce(self._target, value, partition=each.partition())
                ends = {each.partition(): each.offset() + 1 for each in messages}
                offsets = [TopicPartition(self._source, at, end) for at, end in ends.items()]
                metadata = consumer.consumer_group_metadata()
                _until_done(
                    lambda: producer.send_offsets_to_transaction(offsets, metadata, 30)  # noqa: B023
                )
                _until_done(lambda: producer.commit_transaction(60))
                self.copied += len(messages)
                now = time.monotonic()
                self.pause_s = max(self.pause_s, now - last)
                last = now
        except KafkaException as error:
            self.errors.append(str(error))
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
