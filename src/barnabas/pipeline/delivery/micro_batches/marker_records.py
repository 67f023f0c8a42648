"""Markers of micro-batches as records of the topic `JOB-epochs`, where they do not expire.

A marker is a committed offset, which a task reads fast. Offsets expire when nothing has committed
them for `offsets.retention.minutes`: in a job that is stopped, and in one that waits for records.
So each transaction writes its marker as a record too. The topic is compacted by partition. A record
also has the ids of the source topics, which are compared when the job starts.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from barnabas.pipeline.delivery.micro_batches.micro_batch_markers import Marker
from barnabas.pipeline.delivery.writing.record_producer import QUIET

TOPIC_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
"""A small segment: compaction leaves the segment alone that is written now."""

_TIMEOUT_S: Final = 60.0
_CALL_TIMEOUT_S: Final = 30.0
_TAIL: Final = 16
_TAIL_GROWTH: Final = 16


@attrs.frozen
class MarkerRecord:
    """A marker, and the ids of the job's source topics at that time."""

    marker: Marker
    topic_ids: Mapping[str, str]

    def encode(self) -> bytes:
        """Return the value of the record."""
        marker = self.marker
        fields = {"next_epoch": marker.next_batch, "query": marker.query_id}
        return json.dumps(
            {**fields, "digest": marker.digest, "topics": dict(self.topic_ids)}
        ).encode()


def decode(value: bytes | None) -> MarkerRecord | None:
    """Return the marker in a record's value, None when it holds none."""
    try:
        fields: Any = json.loads(value or b"{}")
        marker = Marker(int(fields["next_epoch"]), str(fields["query"]), str(fields["digest"]))
        topics: Any = fields.get("topics")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    found = cast("dict[str, Any]", topics) if isinstance(topics, dict) else {}
    return MarkerRecord(marker, {name: str(at) for name, at in found.items()})


def newest(
    properties: Mapping[str, Any], topic: str, partitions: Iterable[int]
) -> list[MarkerRecord]:
    """Return the newest committed marker of each partition that has one.

    Raises KafkaException, TimeoutError.
    """
    settings = {
        **properties,
        "group.id": f"{topic}-reader",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "logger": QUIET,
    }
    with contextlib.closing(Consumer(settings)) as consumer:
        found = [_newest_of(consumer, TopicPartition(topic, each)) for each in partitions]
    return [record for record in found if record is not None]


def _newest_of(consumer: Consumer, where: TopicPartition) -> MarkerRecord | None:
    start, end = consumer.get_watermark_offsets(where, _CALL_TIMEOUT_S)
    tail = _TAIL
    while start < end:
        # Aborted transactions and their control records may fill a short tail.
        first = max(start, end - tail)
        found = _last(consumer, TopicPartition(where.topic, where.partition, first))
        if found is not None or first == start:
            return found
        tail *= _TAIL_GROWTH
    return None


def _last(consumer: Consumer, where: TopicPartition) -> MarkerRecord | None:
    """Return the last marker from an offset to the end of the partition."""
    consumer.assign([where])
    found: MarkerRecord | None = None
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        error = None if message is None else message.error()
        if message is not None and error is None:
            found = decode(message.value()) or found
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:
            return found
        elif error is not None:
            raise KafkaException(error)
    raise TimeoutError(f"{where.topic}-{where.partition} was not read within {_TIMEOUT_S:.0f} s")
