"""The topics between two queries of an app, and the deletion of records that all have read.

A topic has the properties of a repartition topic of Kafka Streams: retention deletes nothing, and
records are deleted when all queries behind the topic have read them.
"""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.task_failures import refused
from barnabas.pipeline.delivery.writing.transactional_producer import committed, offset_reader

_logger: Final = logging.getLogger("barnabas.streams")

EVERY_S: Final = 30.0
"""Seconds between two deletions: `repartition.purge.interval.ms` of Kafka Streams."""
_CONFIG: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
    "message.timestamp.type": "CreateTime",
}
_STOP_S: Final = 10.0

Place = tuple[str, int]


def create(cluster: ClusterState, topic: str, sources: Iterable[str]) -> None:
    """Create a topic, unless it exists, with the most partitions that one of its sources has.

    Raises JobStartError when a source does not exist, KafkaException.
    """
    found = cluster.source_topics(list(dict.fromkeys(sources)), None)
    cluster.create_topic(topic, max((each.partitions for each in found), default=1), _CONFIG)


def check_whole(cluster: ClusterState, topic: str, query: str) -> None:
    """Raise JobStartError when records are deleted that a query without positions needs.

    Raises KafkaException.
    """
    (found,) = cluster.source_topics([topic], None)
    places = [(topic, number) for number in range(found.partitions)]
    starts = cluster.log_starts(places)
    if any(start > 0 for start in starts.values()):
        raise refused(
            f"topic {topic} has lost records that query {query} has not read, since other queries "
            "have read them: call App.reset(), which processes the records of all topics again"
        )


class RepartitionTrimmer:
    """A thread that deletes the records that all queries behind a topic have read.

    They stay for one interval after that: a power cut may lose the newest files of a checkpoint,
    and the query then reads the records of its newest micro-batch again.
    """

    def __init__(self, client: Mapping[str, str], readers: Mapping[str, Sequence[str]]) -> None:
        """Take the properties of clients, and the groups that read each topic."""
        self._client = dict(client)
        self._readers = readers
        self._read: dict[Place, int] = {}
        self._deleted: dict[Place, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="barnabas-trimmer", daemon=True)

    def start(self) -> None:
        """Start the thread, unless there is nothing to delete."""
        if self._readers:
            self._thread.start()

    def stop(self) -> None:
        """Stop after the running deletion, or without it when the cluster does not answer."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def trim(self) -> None:
        """Delete what all queries had read at the call before.

        Raises ConfigError, KafkaException, JobStartError when a topic does not exist.
        """
        cluster = ClusterState(kafka_properties.for_librdkafka(self._client))
        before, self._read = self._read, self._positions(cluster)
        due = {
            place: min(at, before[place])
            for place, at in self._read.items()
            if min(at, before.get(place, 0)) > self._deleted.get(place, 0)
        }
        if due:
            cluster.delete_records(due)
            self._deleted |= due

    def _positions(self, cluster: ClusterState) -> dict[Place, int]:
        """Return the least position of the queries in each partition that all have read."""
        properties = kafka_properties.for_librdkafka(self._client)
        found: dict[Place, int] = {}
        for topic in cluster.source_topics(list(self._readers), None):
            places = [(topic.name, number) for number in range(topic.partitions)]
            for group in self._readers[topic.name]:
                reader = offset_reader(group, properties, is_stable=False)
                for entry in committed(reader, places):
                    place = (entry.topic, entry.partition)
                    found[place] = min(found.get(place, entry.offset), entry.offset)
        return {place: at for place, at in found.items() if at > 0}

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            try:
                self.trim()
            except Exception as error:  # the cluster does not answer, or does not allow it
                _logger.warning(
                    "cannot delete the records that all queries of a chain have read error=%s",
                    error,
                )
