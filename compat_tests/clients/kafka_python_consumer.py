"""A consumer of kafka-python that knows the partitions of its topics before it is used.

kafka-python 3.0.12 has two defects that show on a busy machine, on Apache Kafka 4.3.0 as well:

1. `ClusterMetadata.update_metadata` takes each response for an answer to all earlier calls of
   `request_update`. `KafkaConsumer(topic)` names its topics while its network thread sends the
   first Metadata request, and so does a `subscribe` that follows `KafkaConsumer()` at once. When
   that request is sent without the topics, and its response arrives after they were named, they
   are not requested again for `metadata_max_age_ms` (5 minutes). A consumer without a group reads
   nothing until then.
2. A consumer with a group joins without partitions in that case, learns of them from a later
   response, and joins again, because they differ from those of its first assignment
   (`ConsumerCoordinator.need_rejoin`). The response to JoinGroup ends the difference. When a call
   of `poll` ends between that response and the one to SyncGroup, the next calls see nothing to do:
   the assignment is never taken over and the heartbeats stay off, so the coordinator removes the
   member after its session timeout.

`test_kafka_consumer` of the suite then reads 0 of 100 records, and `test_heartbeat_thread` polls
without end. `test_kafka_python` makes both orders of events without load.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import RetriableError


class ConsumerOfKnownTopics(KafkaConsumer):
    """A KafkaConsumer that is ready when the metadata of its topics has arrived."""

    def __init__(self, *topics: str, **settings: object) -> None:
        super().__init__(*topics, **settings)
        self._await(topics)

    def subscribe(self, topics: Iterable[str] = (), *others: Any, **options: Any) -> None:
        names = tuple(topics)
        super().subscribe(names, *others, **options)
        self._await(names)

    def _await(self, topics: Iterable[str]) -> None:
        missing = set(topics)
        while missing:
            with suppress(RetriableError):  # of a node that does not know a new topic yet
                missing -= self.topics()
