"""Throttled replication: the rate of bytes of throttled replicas (Kafka's ReplicationQuotaManager).

A topic lists its throttled replicas, on the leader's side and on the follower's; the broker has one
rate for each side. Only replicas that are not in sync are held back, but all bytes of throttled
replicas count.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

ALL_REPLICAS: Final = "*"
UNLIMITED: Final = (1 << 63) - 1


def throttled_partitions(value: Iterable[str], broker_id: int) -> frozenset[int] | None:
    """Return the partitions that a `*.replication.throttled.replicas` value throttles here.

    `value` lists `partition:broker` pairs. None means all partitions (`*`).
    """
    found: set[int] = set()
    for entry in value:
        if entry == ALL_REPLICAS:
            return None
        partition, _, broker = entry.partition(":")
        if broker == str(broker_id):
            found.add(int(partition))
    return frozenset(found)


class ReplicationQuota:
    """The rate of one side, measured over `windows` windows of `window_ms`."""

    def __init__(self, windows: int = 11, window_ms: int = 1000) -> None:
        self.rate = UNLIMITED
        """The allowed bytes a second."""
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[list[int]] = deque()  # start (ms) and bytes of each window
        self._total = 0
        self._topics: dict[str, frozenset[int] | None] = {}

    def throttle(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Set the throttled partitions of a topic; None means all of them."""
        if partitions is None or partitions:
            self._topics[topic] = partitions
        else:
            self._topics.pop(topic, None)

    def is_throttled(self, topic: str, partition: int) -> bool:
        """True when this replica's bytes count."""
        if topic not in self._topics:
            return False
        partitions = self._topics[topic]
        return partitions is None or partition in partitions

    @property
    def throttles_nothing(self) -> bool:
        """True when no topic lists a throttled replica of this broker."""
        return not self._topics

    def record(self, size: int, now_ms: int) -> None:
        """Count bytes of a throttled replica."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            self._expire(now_ms)
            samples.append([now_ms, 0])
        samples[-1][1] += size
        self._total += size

    def is_exceeded(self, now_ms: int) -> bool:
        """True when throttled replicas that are not in sync must wait."""
        if self.rate == UNLIMITED:
            return False
        return self._bytes_per_second(now_ms) > self.rate

    def _bytes_per_second(self, now_ms: int) -> float:
        self._expire(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0][0], self._window_ms)
        return self._total * 1000 / elapsed_ms

    def _expire(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._windows * self._window_ms
        samples = self._samples
        while samples and samples[0][0] <= oldest_ms:
            self._total -= samples.popleft()[1]
