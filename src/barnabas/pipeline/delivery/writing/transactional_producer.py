"""Transactions of a Spark task: one producer per transactional id, kept in the worker process.

A task of the next batch may run in another worker, whose producer then fences this one. So each
transaction starts with a probe: it sends offsets before the first record, and when the broker
answers that the producer is fenced, a new producer takes the transactional id over. The committed
offsets must be read after that, with the producer epoch that the transaction will have.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.writing.offset_readers import OffsetReaders
from barnabas.pipeline.delivery.writing.producer_cache import KeptProducers
from barnabas.pipeline.delivery.writing.record_producer import (
    AbortableError,
    FencedError,
    RecordProducer,
    RecordTooLargeError,
    call_in_thread,
    error_of,
    failure_of,
    raise_by_kind,
)

_INIT_TIMEOUT_S: Final = 60.0
_INIT_ATTEMPT_S: Final = 0.03
"""The time of the first attempt; the next has twice as much."""
_CALL_TIMEOUT_S: Final = 60.0
_CALL_GRACE_S: Final = 5.0
_SOON_S: Final = 2.0
_ABORT_TIMEOUT_S: Final = 10.0
_FAILURES: Final = (FencedError, RecordTooLargeError, AbortableError, TaskFailureError)


class TransactionalProducer(RecordProducer):
    """A producer that has its transactional id's newest epoch, until another takes it over."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        super().__init__(properties)
        self._initialize()

    def begin(self) -> None:
        """Begin a transaction."""
        self._refusal.error = None
        self._call(self._producer.begin_transaction)

    def send_offsets(self, offsets: Sequence[TopicPartition], group: object) -> None:
        """Add offsets of a group to the transaction.

        Raises AbortableError, FencedError, TaskFailureError.
        """
        call = functools.partial(
            self._producer.send_offsets_to_transaction, list(offsets), group, _CALL_TIMEOUT_S
        )
        self._call_with_records(functools.partial(call_in_time, call))

    def commit(self) -> None:
        """Commit the transaction after all its records.

        Raises AbortableError, FencedError, TaskFailureError.
        """
        self._call_with_records(lambda: self._producer.commit_transaction(_CALL_TIMEOUT_S))

    def abort(self) -> None:
        """Abort the transaction. Raises AbortableError, FencedError."""
        self._call(lambda: self._producer.abort_transaction(_ABORT_TIMEOUT_S))

    def _initialize(self) -> None:
        """Take the transactional id over.

        librdkafka looks for a broker at once when the call begins, then each 0.5 s. It misses the
        first one when the bootstrap connection is being closed, so the call is soon repeated.
        """
        deadline = time.monotonic() + _INIT_TIMEOUT_S
        attempt_s = _INIT_ATTEMPT_S
        while True:
            exception = failure_of(functools.partial(self._producer.init_transactions, attempt_s))
            if exception is None:
                return
            error = error_of(exception)
            left_s = deadline - time.monotonic()
            if not error.retriable() or left_s <= 0:
                raise_by_kind(exception)
            if error.code() != KafkaError._TIMED_OUT:
                self._producer.poll(attempt_s)
            attempt_s = min(2 * attempt_s, left_s)


def call_in_time(call: Callable[[], object]) -> None:
    """Send offsets to a transaction. Raises KafkaException when the call does not return in time.

    librdkafka 2.16 ignores the timeout of send_offsets_to_transaction (its issue 5456): the call
    may never return when the coordinator of the group ends meanwhile, also when it starts again.
    """
    try:
        call_in_thread(call, _CALL_TIMEOUT_S + _CALL_GRACE_S)
    except TimeoutError:
        problem = "the coordinators do not answer: offsets were not sent to the transaction"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, problem)) from None


class ProducerCache(KeptProducers[TransactionalProducer]):
    """Producers by transactional id."""

    def _create(self, name: str, properties: Mapping[str, Any]) -> TransactionalProducer:
        return TransactionalProducer({**properties, "transactional.id": name})


PRODUCERS: Final = ProducerCache()
READERS: Final = OffsetReaders()


def offset_reader(
    group_id: str, properties: Mapping[str, Any], *, is_stable: bool = True
) -> Consumer:
    """Return the consumer of this process that reads a group's offsets; it joins no group.

    When the offsets shall be stable the broker answers after open transactions on them have ended,
    which takes `transaction.timeout.ms` when the worker of one was killed. Otherwise it answers at
    once with the offsets before those transactions.
    """
    return READERS.get(group_id, properties, is_stable=is_stable)


def committed(
    reader: Consumer, partitions: Sequence[tuple[str, int]], timeout_s: float = _CALL_TIMEOUT_S
) -> list[TopicPartition]:
    """Return the committed offsets; the offset is negative where there is none."""
    wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
    found = reader.committed(wanted, timeout_s)
    for entry in found:
        if entry.error is not None:
            raise KafkaException(entry.error)
    return found


def log_start(reader: Consumer, topic: str, partition: int) -> int:
    """Return the log start offset of a partition as the cluster has it now."""
    start, _ = reader.get_watermark_offsets(TopicPartition(topic, partition), _CALL_TIMEOUT_S)
    return start


def partitions_of(
    group_id: str, properties: Mapping[str, Any], topics: Iterable[str]
) -> list[tuple[str, int]]:
    """Return all partitions of topics as the cluster has them now."""
    reader = offset_reader(group_id, properties)
    found: list[tuple[str, int]] = []
    for topic in topics:
        metadata = reader.list_topics(topic, _CALL_TIMEOUT_S)
        found += [(topic, partition) for partition in sorted(metadata.topics[topic].partitions)]
    return found


Positions: TypeAlias = Mapping[tuple[str, int], TopicPartition]
"""The committed offsets of partitions; an offset is negative where there is none."""


@attrs.define
class Transaction:
    """A transaction that a task has begun, after the offsets that were committed before it."""

    producer: TransactionalProducer
    reader: Consumer
    positions: dict[tuple[str, int], TopicPartition]
    fenced: int

    def send_offsets(self, offsets: Sequence[TopicPartition]) -> None:
        """Add the next offsets of the group to the transaction."""
        self.producer.send_offsets(offsets, self.reader.consumer_group_metadata())


@attrs.frozen
class TransactionSettings:
    """The values of a job that its transactions use."""

    group_id: str
    generation: int
    producer: Mapping[str, Any]
    consumer: Mapping[str, Any]


def committed_after(
    settings: TransactionSettings,
    transactional_ids: Iterable[str],
    partitions: Sequence[tuple[str, int]],
) -> list[TopicPartition]:
    """Return the committed offsets after the last transactions of ids.

    A broker does not answer while one of them is open, as a killed worker leaves it for
    `transaction.timeout.ms`. So all ids are taken over when it does not answer soon.

    Raises KafkaException, AbortableError, FencedError, TaskFailureError.
    """
    reader = offset_reader(settings.group_id, settings.consumer)
    found: list[TopicPartition] = []
    exception = failure_of(lambda: found.extend(committed(reader, partitions, _SOON_S)))
    if exception is None:
        return found
    if error_of(exception).code() != KafkaError._TIMED_OUT:
        raise exception
    for each in transactional_ids:
        TransactionalProducer({**settings.producer, "transactional.id": each})
    return committed(reader, partitions)


@contextlib.contextmanager
def transaction(
    settings: TransactionSettings, transactional_id: str, partitions: Sequence[tuple[str, int]]
) -> Generator[Transaction]:
    """Begin a transaction after the committed offsets of `partitions`, and commit it at the end.

    The caller sends the offsets before it leaves, that of the first partition among them. An
    exception aborts the transaction; the producer is then forgotten, so that the next attempt
    starts with a new epoch.
    """
    try:
        begun = _begin(settings, transactional_id, partitions)
        yield begun
        begun.producer.commit()
    except BaseException:
        _give_up(transactional_id, settings.generation)
        raise


def _begin(
    settings: TransactionSettings, transactional_id: str, partitions: Sequence[tuple[str, int]]
) -> Transaction:
    reader = offset_reader(settings.group_id, settings.consumer)
    fenced = 0
    while True:
        producer = PRODUCERS.get(transactional_id, settings.generation, settings.producer)
        # Read with the epoch of this producer: a task that commits later fences it first.
        positions = committed(reader, partitions)
        producer.begin()
        try:
            producer.send_offsets(_probe(positions), reader.consumer_group_metadata())
        except FencedError:
            PRODUCERS.discard(transactional_id, settings.generation)
            fenced += 1
            if fenced > 1:
                raise
        else:
            by_partition = {(entry.topic, entry.partition): entry for entry in positions}
            return Transaction(producer, reader, by_partition, fenced)


def _probe(positions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return offsets that change nothing: the committed ones.

    Without any it is zero for the first partition, for which the caller sends another offset.
    """
    known = [entry for entry in positions if entry.offset >= 0] or positions[:1]
    return [
        TopicPartition(
            entry.topic, entry.partition, max(0, entry.offset), metadata=entry.metadata or ""
        )
        for entry in known
    ]


def _give_up(transactional_id: str, generation: int) -> None:
    """Abort the open transaction and forget its producer."""
    producer = PRODUCERS.discard(transactional_id, generation)
    if producer is not None:
        abandon(producer)


def abandon(producer: TransactionalProducer) -> None:
    """Abort the open transaction, if any, so that it does not hold readers back."""
    with contextlib.suppress(*_FAILURES):
        producer.abort()
