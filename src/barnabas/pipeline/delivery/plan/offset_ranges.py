"""The offsets that one batch of a forward job reads: a decision, without input or output."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

Partition: TypeAlias = tuple[str, int]


@attrs.frozen
class OffsetRange:
    """Records of one partition that a task shall read."""

    topic: str
    partition: int
    start: int
    """The offset of the first record."""
    end: int
    """The end of what read_committed showed when the batch was planned."""
    records_max: int

    @property
    def where(self) -> Partition:
        """Return the partition."""
        return self.topic, self.partition


def to_read(
    positions: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    records_max: int,
    turn: int = 0,
) -> list[OffsetRange]:
    """Return the ranges of a batch of at most `records_max` (at least 1) records.

    Small backlogs are read whole, the others get equal shares. When there are more partitions than
    records, `turn`, the number of the batch, decides which of them have a record each.
    """
    waiting = sorted(where for where, start in positions.items() if ends.get(where, start) > start)
    if len(waiting) > records_max:
        first = turn * records_max % len(waiting)
        waiting = (waiting[first:] + waiting[:first])[:records_max]
    waiting.sort(key=lambda where: (ends[where] - positions[where], where))
    found: list[OffsetRange] = []
    left = records_max
    for index, where in enumerate(waiting):
        start, end = positions[where], ends[where]
        share = min(end - start, left // (len(waiting) - index))
        found.append(OffsetRange(*where, start, end, share))
        left -= share
    return found
