"""The rows of a table that was rebuilt, brought to the table's topic in one transaction.

The transaction has what differs: rows that are new or have other values, and tombstones for the
keys that are gone. It also commits an offset of the staging topic: a runner that starts after a
kill finds there whether the rows are exchanged. The partitions of both topics correspond.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.writing.record_producer import QUIET
from barnabas.pipeline.delivery.writing.transactional_producer import (
    TransactionalProducer,
    abandon,
    committed,
    offset_reader,
)
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_WAIT_S: Final = 120.0
_POLL_S: Final = 0.2
_BATCH: Final = 10_000
_DONE: Final = 1
"""The offset that is committed with the rows."""


@attrs.frozen
class Row:
    """A record of a table."""

    partition: int
    key: bytes
    value: bytes | None
    timestamp_ms: int = 0
    headers: Any = None


@attrs.frozen
class Exchange:
    """The topics of a swap, and the properties of librdkafka's clients."""

    staging: str
    topic: str
    properties: Mapping[str, Any] = attrs.field(repr=False)
    timeout_ms: int
    """The time that the transaction may take."""

    def is_done(self) -> bool:
        """True when the table's topic has the new rows.

        A run of another runner that has lost its role cannot write afterwards. Raises
        KafkaException, and what a producer raises.
        """
        self._producer()
        return self._has_mark()

    def run(self) -> int:
        """Write what differs; return the number of records.

        No query may write to either topic. Raises UnresolvedError, KafkaException, TimeoutError,
        and what a transaction raises.
        """
        producer = self._producer()
        if self._has_mark():
            return 0
        rows = [row for each in range(self._partitions()) for row in self._differences(each)]
        group = offset_reader(self.staging, self.properties).consumer_group_metadata()
        try:
            producer.begin()
            for row in rows:
                producer.produce(
                    self.topic, row.value, row.key, row.partition, row.timestamp_ms, row.headers
                )
            producer.send_offsets([TopicPartition(self.staging, 0, _DONE)], group)
            producer.commit()
        except BaseException:
            abandon(producer)
            raise
        return len(rows)

    def _has_mark(self) -> bool:
        reader = offset_reader(self.staging, self.properties)
        return committed(reader, [(self.staging, 0)])[0].offset >= _DONE

    def _producer(self) -> TransactionalProducer:
        """Return a producer; those of earlier calls are fenced, and their transactions end."""
        return TransactionalProducer(
            {
                **self.properties,
                "transactional.id": self.staging,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.report.only.error": True,
                "transaction.timeout.ms": self.timeout_ms,
            }
        )

    def _partitions(self) -> int:
        """Return the number of partitions, once no transaction is open in either topic."""
        cluster = ClusterState(self.properties)
        found = cluster.topics([self.staging, self.topic])
        topics = [each for each in found.values() if each is not None]
        counts = {each.partitions for each in topics}
        if len(topics) != len(found) or len(counts) != 1:
            raise UnresolvedError(
                f"The topics {self.staging} and {self.topic} must be there, with the same number "
                f"of partitions: they have {sorted(counts)}"
            )
        until = time.monotonic() + _WAIT_S
        while True:
            ends = {place: end for place, (_, end) in cluster.log_ranges(topics).items()}
            if cluster.ends(list(ends)) == ends:
                return counts.pop()
            if time.monotonic() > until:
                raise TimeoutError(f"a transaction is open in {self.staging} or {self.topic}")
            time.sleep(_POLL_S)

    def _differences(self, partition: int) -> list[Row]:
        records = self._records(self.topic, partition)
        return differences(records, self._records(self.staging, partition))

    def _records(self, topic: str, partition: int) -> Iterator[Row]:
        """Yield the committed records of a partition to its end. Raises KafkaException."""
        settings = {
            **self.properties,
            "group.id": self.staging,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "logger": QUIET,
        }
        with contextlib.closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(topic, partition, 0)])
            until = time.monotonic() + _WAIT_S
            while time.monotonic() < until:
                for message in consumer.consume(_BATCH, _POLL_S):
                    error = message.error()
                    if error is None:
                        until = time.monotonic() + _WAIT_S
                        yield _row(partition, message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return
                    else:
                        raise KafkaException(error)
        raise TimeoutError(f"{topic}-{partition} has sent no record for {_WAIT_S:.0f} s")


def differences(table: Iterable[Row], built: Iterable[Row]) -> list[Row]:
    """Return the records that make the rows of one topic those of the other.

    They are in the order of the other topic, behind the tombstones.
    """
    known: dict[bytes, tuple[int, bytes | None]] = {
        row.key: (row.partition, _digest(row.value)) for row in table
    }
    newest: dict[bytes, Row] = {}
    for row in built:
        newest.pop(row.key, None)
        if row.value is not None:
            newest[row.key] = row
    found = [
        Row(partition, key, None)
        for key, (partition, digest) in known.items()
        if digest is not None and key not in newest
    ]
    changed = (
        row for row in newest.values() if known.get(row.key) != (row.partition, _digest(row.value))
    )
    return [*found, *changed]


def _digest(value: bytes | None) -> bytes | None:
    return None if value is None else hashlib.blake2b(value, digest_size=16).digest()


def _row(partition: int, message: Any) -> Row:
    _, timestamp_ms = message.timestamp()
    key = message.key() or b""
    return Row(partition, key, message.value(), max(0, timestamp_ms), message.headers())
