"""Positions of source connectors in Connect's offsets topic, in Java Connect's format.

A key is `["connector",{partition}]`, a value `{offset}` or null after a reset, both JSON. A reader
reads the whole topic to its high watermark with read_committed: it waits for open transactions of
other connectors, which would hide records after them.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_TIMEOUT_S: Final = 90.0
_CALL_TIMEOUT_S: Final = 30.0
_READ_MAX: Final = 1_000


def encode_key(connector: str, partition: Mapping[str, Any]) -> bytes:
    """Return the key of a source partition."""
    return _json([connector, dict(partition)])


def encode_value(offset: Mapping[str, Any]) -> bytes:
    """Return the value of a position."""
    return _json(dict(offset))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class SourceOffsets:
    """The committed positions of one connector, by source partition."""

    def __init__(self, connector: str, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._connector = connector
        self._offsets: dict[str, dict[str, Any]] = {}
        for key, value in records:
            self._apply(key, value)

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the committed position of a source partition, None when there is none."""
        return self._offsets.get(_name(partition))

    def _apply(self, key: bytes, value: bytes | None) -> None:
        try:
            connector, partition = json.loads(key)
            offset = None if value is None else json.loads(value)
        except ValueError:
            return
        if connector != self._connector:
            return
        if offset is None:
            self._offsets.pop(_name(partition), None)
        else:
            self._offsets[_name(partition)] = offset


def _name(partition: Mapping[str, Any]) -> str:
    """Return a source partition as a text that does not depend on the order of its fields."""
    return json.dumps(partition, sort_keys=True)


def read(connector: str, topic: str, properties: Mapping[str, Any]) -> SourceOffsets:
    """Return the committed positions of a connector. Raises KafkaException, TimeoutError."""
    settings = {**properties, "group.id": f"{connector}-source-offsets"}
    return SourceOffsets(connector, records_of(topic, settings))


def records_of(topic: str, properties: Mapping[str, Any]) -> list[tuple[bytes, bytes | None]]:
    """Return the committed records of a topic that have a key, those of a partition in order.

    `properties` name a group, which is neither joined nor changed. Raises KafkaException,
    TimeoutError.
    """
    settings = {
        **properties,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    # With read_committed librdkafka reports the last stable offset instead of the high watermark.
    with contextlib.closing(Consumer({**settings, "isolation.level": "read_uncommitted"})) as probe:
        ends = _ends(probe, topic)
    with contextlib.closing(Consumer(settings)) as consumer:
        return _records(consumer, topic, ends)


def _records(
    consumer: Consumer, topic: str, ends: dict[int, int]
) -> list[tuple[bytes, bytes | None]]:
    """Return the records before `ends`; wait for transactions that are open there."""
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    found: list[tuple[bytes, bytes | None]] = []
    deadline = time.monotonic() + _TIMEOUT_S
    while ends:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} was not read to its end within {_TIMEOUT_S:.0f} s")
        for message in consumer.consume(_READ_MAX, 1.0):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if offset is not None and offset >= ends.get(partition or 0, 0):
                    ends.pop(partition or 0, None)
            elif (key := message.key()) is not None:
                found.append((key, message.value()))
    return found


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    """Return the high watermarks of partitions that have records."""
    metadata = consumer.list_topics(topic, _CALL_TIMEOUT_S).topics[topic]
    ends: dict[int, int] = {}
    for partition in metadata.partitions:
        where = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(where, _CALL_TIMEOUT_S)
        if high > low:
            ends[partition] = high
    return ends
