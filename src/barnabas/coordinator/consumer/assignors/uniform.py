"""As many partitions to each member as to any other, moving as few as possible.

Where all consume the same topics, each member keeps what it had up to its share, and the rest
goes to those that have less. Otherwise a topic's free partitions go to whoever of its consumers
has least, and then partitions move from the most to the least loaded until no topic has members
that are more than one partition apart, or that does not get better. Kafka: UniformAssignor.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping

from barnabas.coordinator.consumer.assignors.base import GroupSpec
from barnabas.coordinator.consumer.member import Assignment
from barnabas.protocol.types import Uuid

# Balancing one topic may unbalance another: how often to go round (as Kafka).
_ROUNDS = 16


class UniformAssignor:
    """Balanced and sticky."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Mapping[str, Assignment]:
        """The better of its two ways for this group."""
        if not group.members:
            return {}
        return _homogeneous(group) if group.is_homogeneous else _Heterogeneous(group).assign()


# All members consume the same


def _homogeneous(group: GroupSpec) -> dict[str, Assignment]:
    topic_ids = next(iter(group.members.values())).topic_ids
    total = sum(group.partitions[topic_id] for topic_id in topic_ids)
    share, extra = divmod(total, len(group.members))
    targets: dict[str, dict[Uuid, frozenset[int]]] = {}
    wanting: list[tuple[str, int]] = []
    kept: dict[Uuid, set[int]] = {topic_id: set() for topic_id in topic_ids}
    left = len(group.members)
    for member in group.members.values():
        # A larger share goes to those that can fill it, while there are any, or to the last.
        quota = share + (extra > 0)
        target: dict[Uuid, frozenset[int]] = {}
        for topic_id, partitions in member.target.items():
            if topic_id in topic_ids and quota:
                keeps = _limited(partitions, quota, group.partitions[topic_id])
                if keeps:
                    target[topic_id] = keeps
                    kept[topic_id] |= keeps
                    quota -= len(keeps)
        if extra > 0:
            if quota > 0 and left > extra:
                quota -= 1
            else:
                extra -= 1
        if quota > 0:
            wanting.append((member.member_id, quota))
        targets[member.member_id] = target
        left -= 1
    free = (
        (topic_id, partition)
        for topic_id in sorted(topic_ids)
        for partition in range(group.partitions[topic_id])
        if partition not in kept[topic_id]
    )
    for member_id, quota in wanting:
        _give(targets[member_id], free, quota)
    return dict(targets)


def _limited(partitions: frozenset[int], most: int, count: int) -> frozenset[int]:
    """What a member keeps of a topic; a topic made anew may have fewer partitions."""
    if len(partitions) <= most and max(partitions, default=0) < count:
        return partitions
    return frozenset(sorted(p for p in partitions if p < count)[:most])


def _give(target: dict[Uuid, frozenset[int]], free: Iterator[tuple[Uuid, int]], quota: int) -> None:
    given: dict[Uuid, set[int]] = {}
    for _, (topic_id, partition) in zip(range(quota), free, strict=False):
        given.setdefault(topic_id, set()).add(partition)
    for topic_id, partitions in given.items():
        target[topic_id] = target.get(topic_id, frozenset()) | partitions


# Members consume different topics


class _Heterogeneous:
    """One computation; `owners` is by topic and partition, `loads` by member."""

    def __init__(self, group: GroupSpec) -> None:
        self._counts = group.partitions
        self._consumers: dict[Uuid, list[str]] = {}
        for member in group.members.values():
            for topic_id in member.topic_ids:
                self._consumers.setdefault(topic_id, []).append(member.member_id)
        self._loads = dict.fromkeys(group.members, 0)
        # Ties in load are settled by the order of members.
        self._places = {member_id: place for place, member_id in enumerate(group.members)}
        self._owners: dict[Uuid, list[str | None]] = {
            topic_id: [None] * self._counts[topic_id] for topic_id in self._consumers
        }
        for member in group.members.values():
            for topic_id, partitions in member.target.items():
                if topic_id in member.topic_ids:
                    for partition in partitions:
                        if partition < self._counts[topic_id]:
                            self._assign(topic_id, partition, member.member_id)

    def assign(self) -> dict[str, Assignment]:
        # The scarcest first: many partitions for each consumer, then few consumers.
        topic_ids = sorted(
            self._consumers,
            key=lambda topic_id: (
                -self._counts[topic_id] / len(self._consumers[topic_id]),
                len(self._consumers[topic_id]),
                topic_id,
            ),
        )
        for topic_id in topic_ids:
            self._fill(topic_id)
        shared = [topic_id for topic_id in topic_ids if len(self._consumers[topic_id]) > 1]
        for _ in range(_ROUNDS):
            if not sum(self._balance(topic_id) for topic_id in shared):
                break
        targets: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in self._loads}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner is not None:
                    targets[owner].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(p) for topic_id, p in target.items()}
            for member_id, target in targets.items()
        }

    def _assign(self, topic_id: Uuid, partition: int, member_id: str) -> None:
        owners = self._owners[topic_id]
        owner = owners[partition]
        if owner is not None:
            self._loads[owner] -= 1
        owners[partition] = member_id
        self._loads[member_id] += 1

    def _fill(self, topic_id: Uuid) -> None:
        """Gives each free partition to the least loaded consumer."""
        free = [p for p, owner in enumerate(self._owners[topic_id]) if owner is None]
        if not free:
            return
        least = self._ranked(self._consumers[topic_id], 1)
        for partition in free:
            _, _, member_id = least[0]
            self._assign(topic_id, partition, member_id)
            heapq.heapreplace(least, self._rank(member_id, 1))

    def _balance(self, topic_id: Uuid) -> int:
        """Moves partitions from the most to the least loaded consumers; how many moved."""
        held: dict[str, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            if owner is not None:
                held.setdefault(owner, []).append(partition)
        least = self._ranked(self._consumers[topic_id], 1)
        most = self._ranked(held, -1)
        moved = 0
        while most:
            load, _, rich = most[0]
            if -load != self._loads[rich] or not held[rich]:
                heapq.heappop(most)
                continue
            poor_load, _, poor = least[0]
            if poor_load != self._loads[poor]:
                heapq.heapreplace(least, self._rank(poor, 1))
                continue
            if -load - poor_load <= 1:
                break
            partition = held[rich].pop()
            self._assign(topic_id, partition, poor)
            held.setdefault(poor, []).append(partition)
            heapq.heapreplace(most, self._rank(rich, -1))
            heapq.heapreplace(least, self._rank(poor, 1))
            moved += 1
        return moved

    def _ranked(self, member_ids: Iterable[str], sign: int) -> list[tuple[int, int, str]]:
        ranked = [self._rank(member_id, sign) for member_id in member_ids]
        heapq.heapify(ranked)
        return ranked

    def _rank(self, member_id: str, sign: int) -> tuple[int, int, str]:
        """The place in a heap of the least loaded, or with -1 of the most loaded."""
        return sign * self._loads[member_id], sign * self._places[member_id], member_id
