"""Equal shares for all members, with as few moves as possible.

When all members consume the same topics, each member keeps what it had up to its share, and the
rest goes to members below their share. Otherwise a topic's free partitions go to its least loaded
consumers. Then partitions move from the most to the least loaded consumers, until the loads of a
topic's consumers differ by one at most, or no longer improve. Kafka: UniformAssignor.
"""

import heapq
from collections.abc import Iterable

from barnabas.coordinator.core.steps import SliceBudget, Steps
from barnabas.coordinator.groups.consumer.assignors.assignor import Assignments, GroupSpec
from barnabas.coordinator.groups.consumer.consumer_member import Assignment
from barnabas.protocol.types import Uuid

# Balancing one topic may unbalance another: the most rounds over all topics (as in Kafka).
_ROUNDS = 16
_NONE: frozenset[int] = frozenset()

_Target = dict[Uuid, frozenset[int]]
_TopicPartitions = tuple[Uuid, frozenset[int]]


class UniformAssignor:
    """Balanced and sticky."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Steps[Assignments]:
        """Assign by the better of two algorithms for this group."""
        if not group.members:
            return {}
        way = _Homogeneous if group.is_homogeneous else _Heterogeneous
        return (yield from way(group).assign())


class _Homogeneous:
    """All members consume the same topics; `targets` is by member, `kept` what they keep."""

    def __init__(self, group: GroupSpec) -> None:
        self._counts = group.partitions
        self._weight = group.partitions_max
        self._members = group.members
        self._topic_ids = next(iter(group.members.values())).topic_ids
        self._budget = SliceBudget()
        self._targets: dict[str, _Target] = {}
        self._kept: dict[Uuid, set[int]] = {topic_id: set() for topic_id in self._topic_ids}

    def assign(self) -> Steps[dict[str, Assignment]]:
        total = sum(map(self._counts.__getitem__, self._topic_ids))
        share, extra = divmod(total, len(self._members))
        # Partitions of one topic are kept together, so each costs little.
        budget, weight = self._budget, 1 + self._weight // 32
        wanting: list[tuple[str, int]] = []
        left = len(self._members)
        for member_id, member in self._members.items():
            # The larger shares go to the first members that can fill them, or to the last ones.
            quota = share + (extra > 0)
            target: _Target = {}
            for some in budget.chunks(member.target.items(), weight):
                quota = self._keep(target, some, quota)
                if budget.is_due(len(some)):
                    yield
            if extra > 0:
                if quota > 0 and left > extra:
                    quota -= 1
                else:
                    extra -= 1
            if quota > 0:
                wanting.append((member_id, quota))
            self._targets[member_id] = target
            left -= 1
        yield from self._give(wanting)
        return dict(self._targets)

    def _keep(self, target: _Target, had: Iterable[_TopicPartitions], quota: int) -> int:
        """Leave a member what it had, up to its quota; return the rest of the quota."""
        all_kept, counts = self._kept, self._counts
        for topic_id, partitions in had:
            if not quota:
                break
            kept = all_kept.get(topic_id)
            if kept is None:
                continue  # no member consumes it any longer
            keeps = partitions if kept.isdisjoint(partitions) else partitions - kept
            keeps = _limited(keeps, quota, counts[topic_id])
            if keeps:
                target[topic_id] = keeps
                kept |= keeps
                quota -= len(keeps)
        return quota

    def _give(self, wanting: list[tuple[str, int]]) -> Steps[None]:
        """Assign the free partitions to the members below their quota, in order."""
        turns = iter(wanting)
        member_id, quota = "", 0
        for some in self._budget.chunks(sorted(self._topic_ids), self._weight):
            for topic_id in some:
                kept, count = self._kept[topic_id], self._counts[topic_id]
                free = [p for p in range(count) if p not in kept] if len(kept) < count else []
                while free:
                    if not quota:
                        member_id, quota = next(turns)
                    given, free = free[:quota], free[quota:]
                    target = self._targets[member_id]
                    target[topic_id] = target.get(topic_id, _NONE).union(given)
                    quota -= len(given)
            if self._budget.is_due(len(some) * self._weight):
                yield


def _limited(partitions: frozenset[int], most: int, count: int) -> frozenset[int]:
    """Return what a member keeps of a topic; a recreated topic may have fewer partitions."""
    if len(partitions) <= most and max(partitions, default=0) < count:
        return partitions
    return frozenset(sorted(p for p in partitions if p < count)[:most])


class _Heterogeneous:
    """Members consume different topics; `owners` is by topic and partition, `loads` by member."""

    def __init__(self, group: GroupSpec) -> None:
        self._members = group.members
        self._counts = group.partitions
        self._weight = group.partitions_max
        self._budget = SliceBudget()
        self._consumers: dict[Uuid, list[str]] = {}
        self._loads = dict.fromkeys(group.members, 0)
        # The order of members decides between equal loads.
        self._places = {member_id: place for place, member_id in enumerate(group.members)}
        self._owners: dict[Uuid, list[str | None]] = {}

    def assign(self) -> Steps[dict[str, Assignment]]:
        yield from self._take_in()
        # The scarcest first: many partitions for each consumer, then few consumers.
        topic_ids = sorted(
            self._consumers,
            key=lambda topic_id: (
                -self._counts[topic_id] / len(self._consumers[topic_id]),
                len(self._consumers[topic_id]),
                topic_id,
            ),
        )
        yield
        budget, weight = self._budget, self._weight + len(self._members)
        for some in budget.chunks(topic_ids, weight):
            for topic_id in some:
                self._fill(topic_id)
            if budget.is_due(len(some) * weight):
                yield
        shared = [topic_id for topic_id in topic_ids if len(self._consumers[topic_id]) > 1]
        for _ in range(_ROUNDS):
            moved = 0
            for some in budget.chunks(shared, weight):
                moved += sum(self._balance(topic_id) for topic_id in some)
                if budget.is_due(len(some) * weight):
                    yield
            if not moved:
                break
        return (yield from self._targets())

    def _take_in(self) -> Steps[None]:
        """Note who consumes a topic, and who has its partitions in the last target."""
        for member in self._members.values():
            for some in self._budget.chunks(member.topic_ids):
                for topic_id in some:
                    self._consumers.setdefault(topic_id, []).append(member.member_id)
                if self._budget.is_due(len(some)):
                    yield
        self._owners = {topic_id: [None] * self._counts[topic_id] for topic_id in self._consumers}
        for member in self._members.values():
            for some in self._budget.chunks(member.target.items(), self._weight):
                held = 0
                for topic_id, partitions in some:
                    held += len(partitions)
                    if topic_id in member.topic_ids:
                        for partition in partitions:
                            if partition < self._counts[topic_id]:
                                self._assign(topic_id, partition, member.member_id)
                if self._budget.is_due(held):
                    yield

    def _targets(self) -> Steps[dict[str, Assignment]]:
        targets: dict[str, _Target] = {id_: {} for id_ in self._loads}
        for some in self._budget.chunks(self._owners.items(), self._weight):
            for topic_id, owners in some:
                shares: dict[str, list[int]] = {}
                for partition, owner in enumerate(owners):
                    if owner is not None:
                        shares.setdefault(owner, []).append(partition)
                for owner, partitions in shares.items():
                    targets[owner][topic_id] = frozenset(partitions)
            if self._budget.is_due(len(some) * self._weight):
                yield
        return dict(targets)

    def _assign(self, topic_id: Uuid, partition: int, member_id: str) -> None:
        owners = self._owners[topic_id]
        owner = owners[partition]
        if owner is not None:
            self._loads[owner] -= 1
        owners[partition] = member_id
        self._loads[member_id] += 1

    def _fill(self, topic_id: Uuid) -> None:
        """Assign each free partition to the least loaded consumer."""
        free = [p for p, owner in enumerate(self._owners[topic_id]) if owner is None]
        if not free:
            return
        least = self._ranked(self._consumers[topic_id], 1)
        for partition in free:
            _, _, member_id = least[0]
            self._assign(topic_id, partition, member_id)
            heapq.heapreplace(least, self._rank(member_id, 1))

    def _balance(self, topic_id: Uuid) -> int:
        """Move partitions from the most to the least loaded consumers; return how many moved."""
        if not self._is_uneven(topic_id):
            return 0
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

    def _is_uneven(self, topic_id: Uuid) -> bool:
        """True when the loads of two members differ so that a partition may move."""
        loads = self._loads
        least = min(map(loads.__getitem__, self._consumers[topic_id]))
        owners = {owner for owner in self._owners[topic_id] if owner is not None}
        return max(map(loads.__getitem__, owners), default=0) - least > 1

    def _ranked(self, member_ids: Iterable[str], sign: int) -> list[tuple[int, int, str]]:
        ranked = [self._rank(member_id, sign) for member_id in member_ids]
        heapq.heapify(ranked)
        return ranked

    def _rank(self, member_id: str, sign: int) -> tuple[int, int, str]:
        """Return the place in a heap of the least loaded, or with -1 of the most loaded."""
        return sign * self._loads[member_id], sign * self._places[member_id], member_id
