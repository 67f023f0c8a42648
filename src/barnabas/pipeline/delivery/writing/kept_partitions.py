"""The decision of a copy to keep the partitions of its records.

Clients differ in the partition that they choose for a key: Java's by murmur2, librdkafka's by
default by CRC-32, others by the number in the key. A copy that chose anew would move their records,
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
        self._found: dict[tuple[str, str], tuple[bool, float]] = {}

    def are_kept(self, source: str, target: str, partitions: Callable[[str], int]) -> bool:
        """True when records of one topic keep their partition in the other."""
        is_kept, until_s = self._found.get((source, target), (False, float("-inf")))
        if self._now_s() < until_s:
            return is_kept
        count = partitions(target)
        is_kept = count > 0 and count == partitions(source)
        if count:  # a topic that the broker creates now has partitions soon
            self._found[source, target] = is_kept, self._now_s() + _REFRESH_S
        return is_kept
