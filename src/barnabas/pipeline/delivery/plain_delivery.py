"""Delivery at least once: records and offsets of a task, without a transaction.

The offsets are committed when the broker has all records before them. Records that a failed task
has sent are sent again.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Generator, Sequence
from typing import Final

import attrs
from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.pipeline.delivery.record_producer import RecordProducer, raise_by_kind
from barnabas.pipeline.delivery.transactional_producer import (
    TransactionSettings,
    committed,
    offset_reader,
)

_PRODUCERS_MAX: Final = 64


@attrs.define
class PlainDelivery:
    """A producer with the committed offsets, in the form of `Transaction`."""

    producer: RecordProducer
    reader: Consumer
    positions: dict[tuple[str, int], TopicPartition]
    fenced: int = 0

    def send_offsets(self, offsets: Sequence[TopicPartition]) -> None:
        """Wait for the records, then commit the next offsets of the group."""
        self.producer.flush()
        try:
            found = self.reader.commit(offsets=list(offsets), asynchronous=False) or []
            for entry in found:
                if entry.error is not None:
                    raise KafkaException(entry.error)
        except KafkaException as exception:
            raise_by_kind(exception)


class PlainProducerCache:
    """The producers of this worker process, by job and generation; the oldest are closed."""

    def __init__(self, limit: int = _PRODUCERS_MAX) -> None:
        self._producers: OrderedDict[tuple[str, int], RecordProducer] = OrderedDict()
        self._limit = limit

    @contextlib.contextmanager
    def borrowed(self, settings: TransactionSettings) -> Generator[RecordProducer]:
        """Lend the producer of a job; one that was in use when an exception came is dropped."""
        key = (settings.group_id, settings.generation)
        producer = self._producers.pop(key, None) or RecordProducer(settings.producer)
        try:
            yield producer
        except BaseException:
            producer.purge()
            raise
        self._producers[key] = producer
        while len(self._producers) > self._limit:
            self._producers.popitem(last=False)


PRODUCERS: Final = PlainProducerCache()


@contextlib.contextmanager
def plain_delivery(
    settings: TransactionSettings, partitions: Sequence[tuple[str, int]]
) -> Generator[PlainDelivery]:
    """Begin at the committed offsets of `partitions`. The caller sends the next offsets."""
    reader = offset_reader(settings.group_id, settings.consumer)
    positions = {(each.topic, each.partition): each for each in committed(reader, partitions)}
    with PRODUCERS.borrowed(settings) as producer:
        yield PlainDelivery(producer, reader, positions)
