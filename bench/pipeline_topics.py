"""The topics of `bench.pipeline`: their records, and how far a group has read them."""

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.pipeline_contenders import wait

PARTITIONS = 4


def topics(bootstrap: str, *names: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        future.result(30)


def fill(bootstrap: str, topic: str, values: Callable[[int], str], count: int) -> None:
    """Write records to all partitions of a topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all"})
    for number in range(count):
        while True:
            try:
                producer.produce(topic, values(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def wait_group(bootstrap: str, group: str, topic: str) -> None:
    """Wait until a group has committed the end of every partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends = {each.partition: consumer.get_watermark_offsets(each, 30)[1] for each in places}

    def is_at_end() -> bool:
        try:
            found = consumer.committed(places, 30)
        except KafkaException:
            return False
        return all(each.offset >= ends[each.partition] for each in found)

    wait(is_at_end, f"end of {topic}", 0.05)
    consumer.close()


def wait_end(bootstrap: str, topic: str, count: int) -> None:
    """Wait until a topic exists and has as many offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def has_all() -> bool:
        try:
            return sum(consumer.get_watermark_offsets(each, 30)[1] for each in places) >= count
        except KafkaException:
            return False

    wait(has_all, f"{count} records in {topic}", 0.05)
    consumer.close()
