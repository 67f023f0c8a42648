"""The difference of two images, as the changes that would lead from one to the other.

A node that loads a snapshot of its leader replaces its image. The parts that follow the metadata
get the difference, as if they had seen every record in between.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from barnabas.cluster.metadata.delta import MetadataDelta, TopicDelta
from barnabas.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage

K = TypeVar("K")
V = TypeVar("V")


def difference(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """Return the changes from `old` to `new`."""
    delta = MetadataDelta(old)
    for topic_id, topic in old.topics_by_id.items():
        if topic_id not in new.topics_by_id:
            delta.deleted_topics[topic_id] = topic
    for topic_id, topic in new.topics_by_id.items():
        changed = _topic_difference(old.topics_by_id.get(topic_id), topic)
        if changed is not None:
            delta.topics[topic_id] = changed
    delta.brokers.update(_changes(old.brokers, new.brokers))
    delta.controllers.update(
        {key: each for key, each in new.controllers.items() if old.controllers.get(key) != each}
    )
    delta.scram.update(_changes(old.scram, new.scram))
    delta.acls.update(_changes(old.acls, new.acls))
    delta.client_quotas.update(_changes(old.client_quotas, new.client_quotas))
    delta.tokens.update(_changes(old.tokens, new.tokens))
    for key in {**old.configs, **new.configs}:
        values = dict(new.configs.get(key, {}))
        if values != dict(old.configs.get(key, {})):
            delta.configs[key] = values
    for name in {**old.features, **new.features}:
        if old.features.get(name, 0) != new.features.get(name, 0):
            delta.features[name] = new.features.get(name, 0)
    if old.next_producer_id != new.next_producer_id:
        delta.next_producer_id = new.next_producer_id
    return delta


def _topic_difference(old: TopicImage | None, new: TopicImage) -> TopicDelta | None:
    if old is new:  # images share what did not change
        return None
    before: Mapping[int, PartitionImage] = old.partitions if old is not None else {}
    changed = {
        number: partition
        for number, partition in new.partitions.items()
        if before.get(number) != partition
    }
    if old is not None and not changed:
        return None
    return TopicDelta(new.name, new.id, old is None, before, changed)


def _changes(old: Mapping[K, V], new: Mapping[K, V]) -> dict[Any, Any]:
    """Return new and changed values, and None for each key that is gone."""
    gone: dict[Any, Any] = {key: None for key in old if key not in new}
    return {**gone, **{key: value for key, value in new.items() if old.get(key) != value}}
