"""The check that joined topics have the same partitions, as Kafka Streams makes it at its start."""

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.task_failures import refused


def check(client: Mapping[str, str], sides: Sequence[Sequence[str]]) -> None:
    """Raise JobStartError when the topics of a join have different numbers of partitions."""
    names = [name for side in sides for name in side]
    if not names:
        return
    try:
        cluster = ClusterState(kafka_properties.for_librdkafka(client))
        found = cluster.topics(names)
    except ConfigError as error:
        raise refused(str(error)) from error
    except KafkaException as error:
        raise refused(str(error), is_permanent=False) from error
    counts = {name: topic.partitions for name, topic in found.items() if topic is not None}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise refused(
            f"a join needs topics with the same number of partitions, and {numbers}: give both the "
            "same, or join left.select_key('key'), which distributes both streams by their keys"
        )
