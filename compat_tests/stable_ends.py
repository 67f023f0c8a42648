"""The ends of a topic's partitions for readers of both isolation levels."""

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from compat_tests.client_security import librdkafka


def ends(bootstrap: str, topic: str, partitions: int, level: IsolationLevel) -> dict[int, int]:
    """Return the end of each partition for readers of an isolation level."""
    places = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    admin = AdminClient({**librdkafka(bootstrap), "log_level": 0})
    answers = admin.list_offsets(places, isolation_level=level)
    return {place.partition: future.result(60).offset for place, future in answers.items()}


def hanging_partitions(bootstrap: str, topic: str, partitions: int) -> list[str]:
    """Return the partitions whose last stable offset is below the high watermark."""
    stable = ends(bootstrap, topic, partitions, IsolationLevel.READ_COMMITTED)
    high = ends(bootstrap, topic, partitions, IsolationLevel.READ_UNCOMMITTED)
    return [
        f"{topic}-{number}: {stable[number]} of {high[number]}"
        for number in high
        if stable[number] < high[number]
    ]
