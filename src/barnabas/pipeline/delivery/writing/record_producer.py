"""A producer of records in a Spark task: errors by kind, delivery reports.

`transactional_producer` has it with transactions, `plain_delivery` without.
"""

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.writing.produced_columns import ProducedColumns

_FLUSH_S: Final = 60.0
_METADATA_S: Final = 10.0
_ATTEMPTS_MAX: Final = 10
_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
_PERMANENT: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError._INVALID_ARG,
        KafkaError._AUTHENTICATION,
    }
)
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE})
_UNUSABLE: Final = frozenset({KafkaError.TOPIC_EXCEPTION, KafkaError.TOPIC_AUTHORIZATION_FAILED})
_INVALID: Final = frozenset(
    {
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,
        KafkaError.POLICY_VIOLATION,
    }
)
"""The broker would refuse the same records again."""


# Failures are raised; librdkafka would write each to standard error as well.
QUIET: Final = logging.getLogger("barnabas.pipeline.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class FencedError(Exception):
    """Another producer has taken the transactional id over."""


class RecordTooLargeError(Exception):
    """A record is larger than the client or the topic allows."""


class AbortableError(Exception):
    """The transaction failed and is aborted; a new attempt may succeed."""

    def __init__(self, error: KafkaError, topic: str | None = None) -> None:
        text = error.str()
        super().__init__(f"topic {topic} cannot be written: {text}" if topic else text)
        self.error = error


def error_of(exception: KafkaException) -> KafkaError:
    """Return the error in librdkafka's exception."""
    return exception.args[0]


def failure_of(call: Callable[[], object]) -> KafkaException | None:
    """Return the exception that librdkafka raises in a call, None when it raises none.

    confluent-kafka 2.16 never frees the error of an exception, and the error refers to what is
    being handled where it is raised: to an exception with its frames, and so to their clients,
    which would stay connected for good. In another thread, nothing is being handled.
    """
    try:
        if sys.exc_info()[1] is None:
            call()
        else:
            call_in_thread(call)
    except KafkaException as exception:
        return exception
    return None


def call_in_thread(call: Callable[[], object], timeout_s: float | None = None) -> None:
    """Call in another thread, and raise what it raises there.

    Raises TimeoutError when the call does not return in time; its thread continues.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="call of librdkafka", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise TimeoutError
    if raised:
        raise raised.pop()


def raise_by_kind(exception: KafkaException) -> None:
    """Raise the error of this module that an exception of librdkafka stands for."""
    error = error_of(exception)
    if error.code() in _FENCED:
        raise FencedError(error.str()) from exception
    if error.code() in _TOO_LARGE:
        raise RecordTooLargeError(error.str()) from exception
    if error.code() in _PERMANENT:
        raise TaskFailureError(error.str(), is_permanent=True) from exception
    raise AbortableError(error) from exception


def _too_large(what: str) -> TaskFailureError:
    """Return the failure of a batch: the broker does not say which of its records is too large."""
    return TaskFailureError(
        f"the broker refuses records as too large ({what}): raise max.message.bytes of the topic, "
        "or lower producer.override.batch.size of the job",
        is_permanent=True,
    )


def _invalid(error: KafkaError, topic: str | None) -> TaskFailureError:
    """Return the failure of a batch with a record that the topic does not take."""
    return TaskFailureError(
        f"topic {topic} refuses records ({error.str()}): a timestamp is further from now than its "
        "message.timestamp.before.max.ms or message.timestamp.after.max.ms, or the topic is "
        "compacted and a record has no key: correct the records, or change the properties of the "
        "topic",
        is_permanent=True,
    )


class FirstRefusal:
    """The first record that was not delivered: its error, and its topic.

    It does not refer to the producer that reports to it. The producer is closed when it is dropped
    then, and not when the garbage collector runs.
    """

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.topic: str | None = None

    def note(self, error: KafkaError | None, message: Message) -> None:
        """Take the report of a record."""
        if error is not None and self.error is None:
            self.error = error
            self.topic = message.topic()


class RecordProducer:
    """A producer whose errors are those of this module."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._refusal = FirstRefusal()
        self._fatal: KafkaError | None = None
        own = {"on_delivery": self._refusal.note, "logger": QUIET}
        self._producer = Producer({**properties, **own})

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: Sequence[tuple[str, bytes | None]] | None,
    ) -> None:
        """Queue a record; wait while the queue is full.

        Raises RecordTooLargeError before the record is queued, AbortableError, FencedError.
        """
        # Given as positions, which cost half of keywords: value, key, partition, callback,
        # on_delivery, timestamp, headers.
        produce: Any = self._producer.produce
        while True:
            failure: KafkaException | None = None
            try:
                produce(topic, value, key, partition, None, None, timestamp_ms, headers)
            except BufferError:
                pass
            except KafkaException as exception:
                failure = exception
            else:
                return
            if failure is not None:
                self._raise(failure)
            self._call(lambda: self._producer.poll(0.1))

    def produce_all(
        self, columns: ProducedColumns, refuse: Callable[[int, RecordTooLargeError], None]
    ) -> None:
        """Queue records; `refuse` takes the index of each that is too large, and may raise.

        `map` calls librdkafka without Python's code between two records, which would cost half as
        much as the call. Raises AbortableError, FencedError.
        """
        remaining = columns.remaining()
        while True:
            try:
                deque(map(self._producer.produce, *remaining.columns), maxlen=0)
                return
            except (BufferError, KafkaException):
                index = remaining.newest()
            try:
                self.produce(*columns.record(index))
            except RecordTooLargeError as error:
                refuse(index, error)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic, 0 when it is unknown.

        Raises AbortableError, FencedError, TaskFailureError.
        """
        counts: list[int] = []

        def ask() -> None:
            found = self._producer.list_topics(topic, _METADATA_S).topics[topic]
            counts.append(len(found.partitions))

        self._call(ask)
        return counts[-1]

    def poll(self) -> None:
        """Serve the reports of records; raise the first error among them.

        Raises AbortableError, FencedError, TaskFailureError.
        """
        self._call_with_records(lambda: self._producer.poll(0))
        self._check_deliveries()

    def flush(self) -> None:
        """Wait until the broker has all records.

        Raises AbortableError, FencedError, TaskFailureError.
        """
        left = self._producer.flush(_FLUSH_S)
        self._check_deliveries()
        if left:
            raise AbortableError(KafkaError(KafkaError._TIMED_OUT, f"{left} records are not sent"))

    def purge(self) -> None:
        """Drop the records that are not sent yet."""
        self._producer.purge()

    def _check_deliveries(self) -> None:
        """Raise the first error of a record."""
        error, topic = self._refusal.error, self._refusal.topic
        if error is None:
            return
        if error.code() in _TOO_LARGE:
            raise _too_large(f"a batch for topic {topic}")
        if error.code() in _INVALID:
            raise _invalid(error, topic)
        if error.code() in _UNUSABLE:
            text = f"topic {topic} cannot be written: {error.str()}"
            raise TaskFailureError(text, is_permanent=True)
        try:
            self._raise(KafkaException(error))
        except AbortableError as failure:
            raise AbortableError(failure.error, topic) from failure

    def _call_with_records(self, call: Any) -> None:
        """Call; an error of a record says what is wrong, that of the call is general."""
        try:
            self._call(call)
            return
        except RecordTooLargeError as error:
            raise _too_large(str(error)) from error
        except AbortableError as error:
            failure = error
        self._check_deliveries()
        raise failure

    def _call(self, call: Any) -> None:
        for attempt in range(_ATTEMPTS_MAX):
            exception = failure_of(call)
            if exception is None:
                return
            if not error_of(exception).retriable() or attempt + 1 == _ATTEMPTS_MAX:
                self._raise(exception)
            self._producer.poll(0.05)

    def _raise(self, exception: KafkaException) -> None:
        """Raise the error of this module for an exception, or for the fatal error behind it."""
        error = error_of(exception)
        if error.fatal():
            self._fatal = error
        elif error.code() == KafkaError._FATAL:
            exception = self._fatal_cause(exception)
        raise_by_kind(exception)

    def _fatal_cause(self, exception: KafkaException) -> KafkaException:
        """Return the fatal error of the producer, after which its calls say only that there is one.

        `poll` raises it once, the calls of transactions raise it each time.
        """
        for call in (lambda: self._producer.poll(0), self._producer.begin_transaction):
            found = failure_of(call) if self._fatal is None else None
            if found is not None and error_of(found).fatal():
                self._fatal = error_of(found)
        return exception if self._fatal is None else KafkaException(self._fatal)
