"""Which partitions a broker, a log directory or a condition concerns, without a walk over all.

As Kafka's `BrokersToIsrs` and the other sets of `ReplicationControlManager`. An index is a value:
`updated` returns the index after a change of some partitions.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from barnabas.cluster.metadata.image import (
    NO_DIRECTORY,
    NO_LEADER,
    PartitionImage,
    TopicImage,
)
from barnabas.cluster.metadata.persistent_map import PersistentMap
from barnabas.protocol.types import Uuid


class PartitionKey(NamedTuple):
    """A partition by the id of its topic and its number."""

    topic_id: Uuid
    number: int


Kind = Literal["isr", "elr", "leader", "directory", "leaderless", "imbalanced", "reassigning"]
# What the partitions have in common: a kind, and the broker or directory that it is about.
_Group = tuple[Kind, int | Uuid | None]
_Partitions = PersistentMap[PartitionKey, bool]
Change = tuple[PartitionKey, PartitionImage | None, PartitionImage | None]
"""A partition before and after a change; None when it does not exist."""

_NO_PARTITIONS: Final[_Partitions] = PersistentMap()


class PartitionIndex:
    """The partitions of `topics` by what concerns them."""

    __slots__ = ("_groups", "topics")

    def __init__(
        self, topics: Mapping[Uuid, TopicImage], groups: Mapping[_Group, _Partitions]
    ) -> None:
        self.topics = topics
        self._groups = groups

    @classmethod
    def of(cls, topics: Mapping[Uuid, TopicImage]) -> "PartitionIndex":
        """Return the index of all partitions of these topics."""
        groups: dict[_Group, dict[PartitionKey, bool]] = {}
        for topic in topics.values():
            for number, partition in topic.partitions.items():
                key = PartitionKey(topic.id, number)
                for group in _groups_of(partition):
                    groups.setdefault(group, {})[key] = True
        return cls(topics, {group: PersistentMap(keys) for group, keys in groups.items()})

    def updated(
        self, topics: Mapping[Uuid, TopicImage], changes: Iterable[Change]
    ) -> "PartitionIndex":
        """Return the index of `topics`, which these changes made of the present ones."""
        moved: dict[_Group, dict[PartitionKey, bool | None]] = {}
        for key, old, new in changes:
            before: set[_Group] = set() if old is None else {*_groups_of(old)}
            after: set[_Group] = set() if new is None else {*_groups_of(new)}
            for group in before - after:
                moved.setdefault(group, {})[key] = None
            for group in after - before:
                moved.setdefault(group, {})[key] = True
        groups = dict(self._groups)
        for group, partitions in moved.items():
            groups[group] = groups.get(group, _NO_PARTITIONS).updated(partitions)
            if not groups[group]:
                del groups[group]
        return PartitionIndex(topics, groups)

    def isr_members(self, broker_id: int) -> Iterable[PartitionKey]:
        """Return the partitions that have the broker in their ISR."""
        return self._partitions("isr", broker_id)

    def elr_members(self, broker_id: int) -> Iterable[PartitionKey]:
        """Return the partitions that have the broker among their eligible leader replicas."""
        return self._partitions("elr", broker_id)

    def has_leaderships(self, broker_id: int) -> bool:
        """True when the broker leads a partition."""
        return ("leader", broker_id) in self._groups

    def in_directory(self, directory: Uuid) -> Iterable[PartitionKey]:
        """Return the partitions that have a replica in the log directory."""
        return self._partitions("directory", directory)

    @property
    def leaderless(self) -> Iterable[PartitionKey]:
        """The partitions without a leader."""
        return self._partitions("leaderless")

    @property
    def imbalanced(self) -> Iterable[PartitionKey]:
        """The partitions that another replica than the preferred one leads, or none."""
        return self._partitions("imbalanced")

    @property
    def reassigning(self) -> Iterable[PartitionKey]:
        """The partitions with a reassignment in progress."""
        return self._partitions("reassigning")

    def _partitions(self, kind: Kind, about: int | Uuid | None = None) -> _Partitions:
        return self._groups.get((kind, about), _NO_PARTITIONS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionIndex) and self._groups == other._groups

    def __hash__(self) -> int:
        return id(self)


def _groups_of(partition: PartitionImage) -> Iterator[_Group]:
    for broker_id in partition.isr:
        yield "isr", broker_id
    for broker_id in partition.elr:
        yield "elr", broker_id
    for directory in partition.directories:
        if directory not in NO_DIRECTORY:
            yield "directory", directory
    if partition.leader == NO_LEADER:
        yield "leaderless", None
    else:
        yield "leader", partition.leader
    if partition.replicas and partition.leader != partition.replicas[0]:
        yield "imbalanced", None
    if partition.adding_replicas or partition.removing_replicas:
        yield "reassigning", None
