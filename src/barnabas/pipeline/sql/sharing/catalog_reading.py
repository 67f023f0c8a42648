"""The stored catalog, read to its end by a client that is not a runner."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.stored.catalog_records import CatalogReplay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.catalog.source_values import Source

CATALOG_TOPIC: Final = "_barnabas_sql_commands"
_READ_S: Final = 60.0
_POLL_S: Final = 1.0


def read_catalog(client: Mapping[str, str], topic: str) -> Catalog:
    """Return the catalog that a topic has now.

    Raises UnresolvedError when the topic does not exist, or cannot be read in full; KafkaException.
    """
    own = {
        "group.id": f"barnabas-sql-{uuid.uuid4().hex}",
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
    }
    consumer = Consumer({**kafka_properties.for_librdkafka(client), **own})
    try:
        known = consumer.list_topics(timeout=_READ_S).topics
        if topic not in known:
            raise UnresolvedError(
                f"The cluster has no topic {topic}, which a runner with --sql creates: start one, "
                "or name the topic of its barnabas.sql.storage.topic with catalog_topic="
            )
        return _replayed(consumer, topic)
    finally:
        consumer.close()


def _replayed(consumer: Consumer, topic: str) -> Catalog:
    replay = CatalogReplay()
    consumer.assign([TopicPartition(topic, 0, 0)])
    until = time.monotonic() + _READ_S
    while time.monotonic() < until:
        for message in consumer.consume(500, _POLL_S):
            error = message.error()
            if error is None:
                place = f"offset {message.offset()} of topic {topic}"
                replay.apply(message.key(), message.value(), place)
            elif error.code() == KafkaError._PARTITION_EOF:
                if replay.problem is not None:
                    raise UnresolvedError(f"The SQL catalog is not complete: {replay.problem}")
                return replay.catalog
            else:
                raise KafkaException(error)
    raise UnresolvedError(f"The topic {topic} was not read to its end within {_READ_S:g} s")


def source_of(catalog: Catalog, name: str) -> Source:
    """Return a source by its name, in any case unless it is back-quoted as in SQL.

    Raises UnresolvedError with the nearest name.
    """
    if len(name) > 2 and name[0] == name[-1] == "`":
        return catalog.source(name[1:-1])
    return catalog.source(name if name in catalog.sources else name.upper())
