"""The decision of a copy to keep the partitions of its records.

Clients differ in the partition that they choose for a key: Java's by murmur2, librdkafka's by
default by CRC-32, others by the number in the key. A copy that chose again would move them,
so it keeps partitions where both topics have the same number of them. Elsewhere keys choose, as
Java's clients do.
"""

import time
from collections.abc import Callable
from typing import Final

_REFRESH_S: Final = 30.0


class KeptPartitions:
    """Compares the numbers of partitions of topics, again after a time: topics can grow."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._found: dict[tuple[str, str], tuple[int, float]] = {}

    def is_kept(
        self, source: str, partition: int, target: str, partitions: Callable[[str], int]
    ) -> bool:
        """True when records of a partition keep its number in another topic."""
        common, until_s = self._found.get((source, target), (0, float("-inf")))
        is_new = partition >= common > 0  # the source has grown
        if self._now_s() < until_s and not is_new:
            return partition < common
        count = partitions(target)
        common = count if count == partitions(source) else 0
        if count:  # a topic that the broker creates now has partitions soon
            self._found[source, target] = common, self._now_s() + _REFRESH_S
        return partition < common
