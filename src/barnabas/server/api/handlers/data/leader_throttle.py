"""The leader's side of throttled replication (KIP-73)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.server.replication.fetch_sessions import FetchedPartition

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition, ReplicaManager


class LeaderThrottle:
    """Holds back the throttled partitions of one follower's fetch.

    Only a follower outside the ISR is held back; the bytes of all throttled partitions count.
    """

    __slots__ = ("_follower", "_now_ms", "_quota")

    def __init__(self, replicas: "ReplicaManager", follower: int) -> None:
        self._quota = replicas.leader_quota
        self._now_ms = replicas.clock.monotonic_ms
        self._follower = follower

    @classmethod
    def of(cls, replicas: "ReplicaManager", follower: int) -> "LeaderThrottle | None":
        """Return the throttle of a follower's fetch; None for consumers, and without throttles."""
        if follower < 0 or replicas.leader_quota.throttles_nothing:
            return None
        return cls(replicas, follower)

    def holds_back(self, partition: "Partition") -> bool:
        """True when the follower gets no records of the partition now; its leader notes that."""
        state, quota = partition.leader_state, self._quota
        if (
            state is None
            or self._follower in state.isr.committed
            or not quota.is_throttled(partition.topic, partition.partition)
            or not quota.is_exceeded(self._now_ms())
        ):
            return False
        state.hold_back(self._follower)
        partition.commit_more()  # what waited for the follower to join the ISR
        return True

    def count(self, answered: Iterable[FetchedPartition]) -> None:
        """Count the bytes of a response."""
        quota = self._quota
        size = sum(
            each.size
            for each in answered
            if each.partition is not None
            and quota.is_throttled(each.partition.topic, each.partition.partition)
        )
        if size:
            quota.record(size, self._now_ms())
