"""The rows of a task in a transaction that stays open until the driver ends it.

A driver can end a transaction of another process by its id, producer id and epoch. librdkafka shows
the last two in its statistics only. The producer is not kept for the next task: it would take the
transaction, which the driver ends, for its own open one.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.writing.produced_records import BY_KEY
from barnabas.pipeline.delivery.writing.record_producer import (
    AbortableError,
    FencedError,
    RecordTooLargeError,
)
from barnabas.pipeline.delivery.writing.transactional_producer import (
    TransactionalProducer,
    abandon,
)
from barnabas.pipeline.sink import sink_columns
from barnabas.pipeline.sink.commit_record import PreparedTransaction
from barnabas.pipeline.sink.sink_errors import SinkError, with_grants

_STATISTICS_MS: Final = 100
_IDENTITY_S: Final = 60.0
_POLL_S: Final = 0.02


class PreparingProducer(TransactionalProducer):
    """A producer that ends a task with its transaction open."""

    def __init__(self, transactional_id: str, properties: Mapping[str, Any]) -> None:
        self._transactional_id = transactional_id
        self._identity: tuple[int, int] | None = None
        super().__init__(
            {
                **properties,
                "transactional.id": transactional_id,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._note_statistics,
            }
        )

    def prepare(self) -> PreparedTransaction:
        """Wait until the brokers have all records; return the transaction.

        Raises AbortableError, FencedError, TaskFailureError.
        """
        self.flush()
        deadline = time.monotonic() + _IDENTITY_S
        while self._identity is None:
            if time.monotonic() > deadline:
                raise SinkError(f"librdkafka did not report its producer id in {_IDENTITY_S:.0f} s")
            self._producer.poll(_POLL_S)
        return PreparedTransaction(self._transactional_id, *self._identity)

    def _note_statistics(self, text: str) -> None:
        if self._identity is not None:
            return
        found = json.loads(text).get("eos", {})
        producer_id = int(found.get("producer_id", -1))
        if producer_id >= 0 and found.get("txn_state") == "InTransaction":
            self._identity = producer_id, int(found["producer_epoch"])


def write(
    batches: Iterator[Any],
    topic: str | None,
    transactional_id: str,
    properties: Mapping[str, Any],
    *,
    name: str,
) -> PreparedTransaction | None:
    """Write the rows of a task and return its open transaction, None without rows.

    `name` begins the transactional ids of the user, as ACLs have them.
    Raises SinkError; the transaction is aborted then.
    """
    producer: PreparingProducer | None = None
    try:
        for batch in batches:
            if batch.num_rows and producer is None:
                producer = PreparingProducer(transactional_id, properties)
                producer.begin()
            if producer is not None:
                _produce(producer, batch, topic)
        return None if producer is None else producer.prepare()
    except BaseException as error:
        if producer is not None:
            abandon(producer)
        raise _shown(error, name) from error


def _produce(producer: PreparingProducer, batch: Any, topic: str | None) -> None:
    produce = producer.produce
    for name, value, key, partition, time_ms, headers in sink_columns.rows_of(batch, topic):
        target = BY_KEY if partition is None else partition
        try:
            produce(name or "", value, key, target, time_ms or 0, headers or None)
        except RecordTooLargeError as error:
            raise SinkError(
                f"a row for topic {name} is too large: {error}. Raise `kafka.max.request.size` "
                "and max.message.bytes of the topic, or make the row smaller"
            ) from error
    producer.poll()


def _shown(error: BaseException, name: str) -> BaseException:
    """Return the error that a user sees."""
    if isinstance(error, TaskFailureError):
        return SinkError(with_grants(error.failure.message, name))
    if isinstance(error, FencedError):
        return SinkError(
            f"another task or driver has taken the transaction over ({error}): a later attempt of "
            "this task, or a second query with the same `name`, which needs another one"
        )
    if isinstance(error, AbortableError):
        unknown = error.error.code() == KafkaError._UNKNOWN_PARTITION
        why = ": column `partition` has a number that the topic does not have" if unknown else ""
        return SinkError(f"{error}{why}. The transaction is aborted: none of its rows is visible")
    return error
