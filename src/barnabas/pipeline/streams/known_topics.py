"""The ids of topics that the queries of an app have read, in Kafka, where they outlive the topics.

A topic that is deleted takes the committed offsets of all groups with it. When it is created again
while the app is down, a query without state would start at its beginning, and process other records
without notice. So the ids are stored before the first record is read. Queries with state have them
in the records of their markers.

The topic APP-source-topics is compacted; a key is a query, a value the ids by topic.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.slices import source_offsets
from barnabas.pipeline.delivery.writing.record_producer import QUIET

_TOPIC_CONFIG: Final = {"cleanup.policy": "compact"}
_FLUSH_S: Final = 30.0


class KnownTopics:
    """Reads the ids once, and writes those that are new."""

    def __init__(self, app: str, properties: Mapping[str, str]) -> None:
        self._topic = f"{app}-source-topics"
        self._properties = dict(properties)
        self._known: dict[str, dict[str, str]] | None = None

    def of(self, query: str) -> Mapping[str, str]:
        """Return the ids of the topics that a query has read.

        Raises ConfigError, KafkaException, TimeoutError.
        """
        if self._known is None:
            self._known = self._read()
        return self._known.get(query, {})

    def remember(self, query: str, ids: Mapping[str, str]) -> None:
        """Store the ids of a query's topics. Raises ConfigError, KafkaException, TimeoutError."""
        known = self.of(query)
        if known != ids:
            self._write(query, dict(ids))

    def forget(self, query: str) -> None:
        """Remove the ids of a query's topics. Raises ConfigError, KafkaException, TimeoutError."""
        if self.of(query):
            self._write(query, None)

    def _read(self) -> dict[str, dict[str, str]]:
        properties = kafka_properties.for_librdkafka(self._properties)
        ClusterState(properties).create_topic(self._topic, 1, _TOPIC_CONFIG)
        settings = {**properties, "group.id": f"{self._topic}-reader", "logger": QUIET}
        found: dict[str, dict[str, str]] = {}
        for key, value in source_offsets.records_of(self._topic, settings):
            found[key.decode(errors="replace")] = _ids(value)
        return found

    def _write(self, query: str, ids: dict[str, str] | None) -> None:
        properties = kafka_properties.for_librdkafka(self._properties)
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        settings = {"enable.idempotence": True, "logger": QUIET, "on_delivery": delivered}
        producer = Producer({**properties, **settings})
        value = None if ids is None else json.dumps(ids).encode()
        producer.produce(self._topic, value, query.encode(), 0)
        if producer.flush(_FLUSH_S):
            raise TimeoutError(f"{self._topic} was not written within {_FLUSH_S:.0f} s")
        if failures:
            raise KafkaException(failures[0])
        if self._known is not None:
            self._known[query] = ids or {}


class GivenTopics:
    """Ids that the host of an app keeps; those of topics between queries are known while it runs.

    A recreated topic of the host's is found by its id. Of a topic between queries, the loss of
    records that are needed is found when the query that reads it starts.
    """

    def __init__(self, ids: Mapping[str, str]) -> None:
        self._ids = dict(ids)

    def of(self, query: str) -> Mapping[str, str]:
        """Return the ids of all topics."""
        del query
        return self._ids

    def remember(self, query: str, ids: Mapping[str, str]) -> None:
        """Add ids until the app ends."""
        del query
        self._ids |= ids

    def forget(self, query: str) -> None:
        """Do nothing: the host forgets ids."""


def _ids(value: bytes | None) -> dict[str, str]:
    """Return the ids in a value; none when another program wrote it."""
    try:
        found: Any = json.loads(value or b"{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: str(at) for name, at in cast("dict[str, Any]", found).items()}
