"""The rows of a table that was rebuilt, brought to the table's topic in one transaction.

The transaction has what differs: rows that are new or have other values, and tombstones for the
keys that are gone. It also commits an offset of the staging topic: a runner that starts after a
kill finds there whether the rows are exchanged. The partitions of both topics correspond.

Each topic is read to compare them, then the staging topic once more for the rows that are written.
The memory has the keys of a partition, and the offsets of the rows that differ, but no values. The
transaction may take as long as the brokers allow: the next runner ends that of a killed one.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from array import array
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
    offset: int = 0


@attrs.frozen
class Changes:
    """The records that make the rows of one partition those of another topic's."""

    partition: int
    gone: list[bytes]
    """The keys that get a tombstone."""
    offsets: array[int]
    """The offsets of the other topic's rows that are written, in order."""

    def rows(self, built: Iterable[Row]) -> Iterator[Row]:
        """Yield the records to write. Raises UnresolvedError when `built` lacks one."""
        for key in self.gone:
            yield Row(self.partition, key, None)
        left = iter(self.offsets)
        wanted = next(left, None)
        if wanted is None:
            return
        for row in built:
            if row.offset == wanted:
                yield row
                wanted = next(left, None)
                if wanted is None:
                    return
        raise UnresolvedError(f"The record at offset {wanted} of the rebuilt table is not there")


@attrs.frozen
class Exchange:
    """The topics of a swap, and the properties of librdkafka's clients."""

    staging: str
    topic: str
    properties: Mapping[str, Any] = attrs.field(repr=False)
    timeout_ms: int
    """The time that the transaction may take where the limit of the brokers is not known."""

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
        changes = [self._changes(each) for each in range(self._partitions())]
        group = offset_reader(self.staging, self.properties).consumer_group_metadata()
        try:
            producer.begin()
            for each in changes:
                self._write(producer, each)
            producer.send_offsets([TopicPartition(self.staging, 0, _DONE)], group)
            producer.commit()
        except BaseException:
            abandon(producer)
            raise
        return sum(len(each.gone) + len(each.offsets) for each in changes)

    def _write(self, producer: TransactionalProducer, changes: Changes) -> None:
        first = changes.offsets[0] if changes.offsets else 0
        built = self._records(self.staging, changes.partition, first)
        for row in changes.rows(built):
            producer.produce(
                self.topic, row.value, row.key, row.partition, row.timestamp_ms, row.headers
            )

    def _has_mark(self) -> bool:
        reader = offset_reader(self.staging, self.properties)
        return committed(reader, [(self.staging, 0)])[0].offset >= _DONE

    def _producer(self) -> TransactionalProducer:
        """Return a producer; those of earlier calls are fenced, and their transactions end."""
        limit_ms = ClusterState(self.properties).transaction_ms_max()
        return TransactionalProducer(
            {
                **self.properties,
                "transactional.id": self.staging,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.report.only.error": True,
                "transaction.timeout.ms": limit_ms or self.timeout_ms,
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

    def _changes(self, partition: int) -> Changes:
        records = self._records(self.topic, partition)
        return changes_of(partition, records, self._records(self.staging, partition))

    def _records(self, topic: str, partition: int, first: int = 0) -> Iterator[Row]:
        """Yield the committed records of a partition from an offset to its end.

        Raises KafkaException, TimeoutError.
        """
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
            consumer.assign([TopicPartition(topic, partition, first)])
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


def changes_of(partition: int, table: Iterable[Row], built: Iterable[Row]) -> Changes:
    """Return the changes that make the rows of a topic's partition those of the other topic's."""
    known = {row.key: _digest(row.value) for row in table}
    newest = {row.key: (row.offset, _digest(row.value)) for row in built}
    gone = [
        key
        for key, digest in known.items()
        if digest is not None and newest.get(key, (0, None))[1] is None
    ]
    offsets = sorted(
        offset
        for key, (offset, digest) in newest.items()
        if digest is not None and known.get(key) != digest
    )
    return Changes(partition, gone, array("q", offsets))


def _digest(value: bytes | None) -> bytes | None:
    return None if value is None else hashlib.blake2b(value, digest_size=16).digest()


def _row(partition: int, message: Any) -> Row:
    _, timestamp_ms = message.timestamp()
    key = message.key() or b""
    value, headers = message.value(), message.headers()
    return Row(partition, key, value, max(0, timestamp_ms), headers, message.offset())
