"""The topic `NAME-commits`: one compacted partition that one driver at a time writes.

A driver writes with the transactional id `NAME-commits`. To initialize that producer fences every
earlier one, so the record that a driver reads afterwards is the newest when its own is committed.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.writing.record_producer import (
    QUIET,
    AbortableError,
    FencedError,
    error_of,
)
from barnabas.pipeline.delivery.writing.transactional_producer import (
    TransactionalProducer,
    abandon,
)
from barnabas.pipeline.sink import commit_record
from barnabas.pipeline.sink.commit_record import CommitRecord
from barnabas.pipeline.sink.sink_errors import SinkError, with_grants

_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
_SUFFIX: Final = "-commits"
_TIMEOUT_S: Final = 60.0
_CALL_TIMEOUT_S: Final = 30.0
_FETCH_WAIT_MS: Final = 10
"""The end of the partition is known when a fetch has waited for this time."""
_ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.1
_OF_GROUPS: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
"""Errors of the consumer that do not matter: librdkafka wants a group, and looks for its
coordinator, but the consumer neither joins the group nor commits offsets."""
_NOT_KNOWN: Final = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)


class CommitsTopic:
    """Reads the newest record of a query, and writes the next one."""

    def __init__(self, name: str, producer: Mapping[str, Any], consumer: Mapping[str, Any]) -> None:
        self.name = f"{name}{_SUFFIX}"
        self._producer_properties = {**producer, "transactional.id": self.name}
        self._consumer_properties = consumer
        self._producer: TransactionalProducer | None = None
        self._consumer: Consumer | None = None
        self._record: CommitRecord | None = None
        self._end = 0

    def newest(self) -> CommitRecord | None:
        """Return the newest committed record. Raises SinkError."""
        try:
            return self._newest()
        except KafkaException as error:
            self._consumer = None
            raise self._unusable("read", error.args[0].str()) from error

    def update(self, following: Callable[[CommitRecord | None], CommitRecord]) -> CommitRecord:
        """Write the record that follows the newest one, and return it. Raises SinkError.

        `following` is called again when another process has written a record meanwhile.
        """
        for _ in range(_ATTEMPTS):
            try:
                producer = self._locked()
                record = following(self.newest())
                producer.begin()
                producer.produce(self.name, record.encode(), self.name.encode(), 0, 0, None)
                producer.commit()
            except FencedError:
                self._unlock()
            except (AbortableError, TaskFailureError) as error:
                self._unlock()
                raise self._unusable("written", _text(error)) from error
            else:
                return record
        raise SinkError(f"other drivers write topic {self.name} all the time: each needs a `name`")

    def lock(self) -> None:
        """Fence other writers: what they sent is committed or aborted then. Raises SinkError."""
        self._unlock()
        try:
            self._locked()
        except (AbortableError, FencedError, TaskFailureError) as error:
            raise self._unusable("written", _text(error)) from error

    def _unusable(self, what: str, reason: str) -> SinkError:
        name = self.name.removesuffix(_SUFFIX)
        return SinkError(with_grants(f"topic {self.name} cannot be {what}: {reason}", name))

    def _unlock(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            abandon(producer)

    def _locked(self) -> TransactionalProducer:
        if self._producer is None:
            self._producer = TransactionalProducer(self._producer_properties)
        return self._producer

    def _newest(self) -> CommitRecord | None:
        if self._consumer is None:
            self._record, self._end = None, 0
            self._create_if_missing(ClusterState(self._consumer_properties))
            self._consumer = Consumer(
                {
                    **self._consumer_properties,
                    "group.id": self.name,
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "earliest",
                    "fetch.wait.max.ms": _FETCH_WAIT_MS,
                    "logger": QUIET,
                }
            )
        consumer = self._consumer
        start, end = self._offsets(consumer)
        if end < self._end:  # the topic was deleted and created again
            self._record, self._end = None, 0
        if end > self._end:
            self._read(consumer, max(start, self._end))
            self._end = end
        return self._record

    def _create_if_missing(self, cluster: ClusterState) -> None:
        if cluster.topics([self.name])[self.name] is None:
            cluster.create_topic(self.name, 1, _CONFIG)

    def _offsets(self, consumer: Consumer) -> tuple[int, int]:
        """Return the first offset and the end; brokers may know a new topic a moment later.

        A topic that was deleted is created again: so a user starts again under the same name.
        """
        deadline = time.monotonic() + _CALL_TIMEOUT_S
        cluster: ClusterState | None = None
        while True:
            try:
                return consumer.get_watermark_offsets(TopicPartition(self.name, 0), _CALL_TIMEOUT_S)
            except KafkaException as error:
                if error_of(error).code() not in _NOT_KNOWN or time.monotonic() > deadline:
                    raise
            cluster = cluster or ClusterState(self._consumer_properties)
            self._create_if_missing(cluster)
            time.sleep(_PAUSE_S)

    def _read(self, consumer: Consumer, first: int) -> None:
        """Keep the last record from an offset to the end of the partition."""
        consumer.assign([TopicPartition(self.name, 0, first)])
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            error = None if message is None else message.error()
            if message is not None and error is None:
                self._record = commit_record.decode(message.value(), self.name)
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                consumer.unassign()
                return
            elif error is not None and error.code() not in _OF_GROUPS:
                raise KafkaException(error)
        raise SinkError(f"topic {self.name} was not read within {_TIMEOUT_S:.0f} s")


def _text(error: Exception) -> str:
    return error.failure.message if isinstance(error, TaskFailureError) else str(error)
