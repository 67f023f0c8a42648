"""Delivery at least once: records and offsets of a task, without a transaction.

The offsets are committed when the broker has all records before them. Records that a failed task
has sent are sent again.
"""

import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

import attrs
from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.pipeline.delivery.writing.producer_cache import KeptProducers
from barnabas.pipeline.delivery.writing.record_producer import RecordProducer, raise_by_kind
from barnabas.pipeline.delivery.writing.transactional_producer import (
    TransactionSettings,
    committed,
    offset_reader,
)


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


class PlainProducers(KeptProducers[RecordProducer]):
    """Producers by group, which is that of one job."""

    def _create(self, name: str, properties: Mapping[str, Any]) -> RecordProducer:
        return RecordProducer(properties)


PRODUCERS: Final = PlainProducers()


@contextlib.contextmanager
def plain_delivery(
    settings: TransactionSettings, partitions: Sequence[tuple[str, int]]
) -> Generator[PlainDelivery]:
    """Begin at the committed offsets of `partitions`. The caller sends the next offsets.

    After an exception the producer is forgotten, with the records that it has not sent.
    """
    reader = offset_reader(settings.group_id, settings.consumer)
    positions = {(each.topic, each.partition): each for each in committed(reader, partitions)}
    producer = PRODUCERS.get(settings.group_id, settings.generation, settings.producer)
    try:
        yield PlainDelivery(producer, reader, positions)
    except BaseException:
        PRODUCERS.discard(settings.group_id, settings.generation)
        producer.purge()
        raise
