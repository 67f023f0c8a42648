"""The cluster's topics as consumer groups see them, and the hash that shows their changes.

A group keeps one number for all topics that it subscribes to: an XXH3 hash over each topic's id,
name, partitions and racks. When it differs, the group needs a new assignment. Kafka:
group.Utils.computeTopicHash and computeGroupHash, on hash4j's streams (integers are little-endian,
a string is its UTF-16 units and then their number).
"""

from collections.abc import Iterable
from struct import Struct
from weakref import WeakKeyDictionary

import xxhash

from barnabas.cluster.metadata.image import MetadataImage, TopicImage
from barnabas.coordinator.core.steps import SliceBudget, Steps
from barnabas.protocol.types import Uuid

_MAGIC_BYTE = b"\0"
_INT = Struct("<i")
_LONG = Struct("<q")
_UINT64 = 1 << 64
_INT64_MAX = (1 << 63) - 1


class Topics:
    """The topics of the newest metadata image, with hashes that are computed on first use.

    `newest_version` is the metadata offset at which topics were last created, as far as known.
    """

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.newest_version = -1
        self._hashes: dict[str, int] = {}
        # The ids of sets of names, as long as some member has the set.
        self._ids: WeakKeyDictionary[frozenset[str], frozenset[Uuid]] = WeakKeyDictionary()

    def update(self, image: MetadataImage, *, changed: Iterable[str], created: bool) -> None:
        """Take the next image: these topics changed or were deleted, and some may be new."""
        if image.topics_by_name is not self.image.topics_by_name:
            self._ids.clear()
        self.image = image
        if created or self.newest_version == -1:
            self.newest_version = image.offset
        for name in changed:
            self._hashes.pop(name, None)

    def ids(self, names: frozenset[str]) -> frozenset[Uuid]:
        """Return the ids of the topics that exist."""
        ids = self._ids.get(names)
        if ids is None:
            by_name = self.image.topics_by_name
            found = [topic.id for name in names if (topic := by_name.get(name)) is not None]
            ids = self._ids[names] = frozenset(found)
        return ids

    def partition_counts(self, topic_ids: Iterable[Uuid]) -> dict[Uuid, int]:
        """Return the number of partitions of each of these topics."""
        by_id = self.image.topics_by_id
        return {topic_id: len(by_id[topic_id].partitions) for topic_id in topic_ids}

    def racks(self, topic_id: Uuid, partition: int) -> list[str]:
        """Return the racks of a partition's replicas, as far as their brokers have one."""
        topic = self.image.topics_by_id.get(topic_id)
        return [] if topic is None else _racks(self.image, topic, partition)

    def metadata_hash(self, names: Iterable[str]) -> Steps[int]:
        """Return the hash of the topics that exist, an int64; 0 when none does."""
        by_name = self.image.topics_by_name
        known = sorted(name for name in names if name in by_name)
        if not known:
            return 0
        yield
        whole = xxhash.xxh3_64()
        for some in SliceBudget().chunks(known):
            whole.update(b"".join(map(self._packed_hash, some)))
            yield
        return _int64(whole.intdigest())

    def _packed_hash(self, name: str) -> bytes:
        value = self._hashes.get(name)
        if value is None:
            value = topic_hash(self.image, self.image.topics_by_name[name])
            self._hashes[name] = value
        return _LONG.pack(value)


def topic_hash(image: MetadataImage, topic: TopicImage) -> int:
    """Return the hash of one topic, an int64."""
    count = len(topic.partitions)
    high, low = topic.id[7::-1], topic.id[:7:-1]  # both halves as little-endian integers
    parts = [_MAGIC_BYTE, high, low, _string(topic.name), _INT.pack(count)]
    for partition in range(count):
        parts.append(_INT.pack(partition))
        for rack in sorted(_racks(image, topic, partition)):
            parts += (_INT.pack(_utf16_length(rack)), _string(rack))
    return _int64(xxhash.xxh3_64_intdigest(b"".join(parts)))


def _racks(image: MetadataImage, topic: TopicImage, partition: int) -> list[str]:
    placed = topic.partitions.get(partition)
    if placed is None:
        return []
    brokers = (image.brokers.get(replica) for replica in placed.replicas)
    return [broker.rack for broker in brokers if broker is not None and broker.rack is not None]


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT.pack(len(units) // 2)


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _int64(value: int) -> int:
    return value - _UINT64 if value > _INT64_MAX else value
