"""Offsets that a query skipped because retention deleted them: count and reports without I/O.

Spark's source continues at the log start offset when records are gone before it has read them, and
does not say so. The rows of a partition have a gap there. Other gaps are common: control records,
aborted records, and records that compaction removed. They are after the log start offset, so they
do not count, unless retention deletes them in the moment in which they are read.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

REPORT_EVERY_S: Final = 10.0


def count(offsets: Sequence[int], following: int, log_start: Callable[[], int]) -> int:
    """Return the number of deleted offsets between `following` and the last of `offsets`.

    `offsets` ascend and may repeat. `log_start` reads the log start offset; it is called when there
    is a gap.
    """
    gaps: list[tuple[int, int]] = []
    for offset in offsets:
        if offset > following:
            gaps.append((following, offset))
        following = max(following, offset + 1)
    if not gaps:
        return 0
    start = log_start()
    return sum(max(0, min(end, start) - begin) for begin, end in gaps)


class TrimmedReports:
    """Decides when the log names skipped offsets of one run: at once, then every 10 seconds."""

    def __init__(self) -> None:
        self._total = 0
        self._reported = 0
        self._reported_s = -math.inf

    def due(self, total: int, now_s: float) -> int:
        """Return the number of offsets to report now, given the total of the run; 0 for none."""
        self._total = total
        if total <= self._reported or now_s - self._reported_s < REPORT_EVERY_S:
            return 0
        self._reported_s = now_s
        return self.rest()

    def rest(self) -> int:
        """Return the number of offsets that no report had, at the end of the run."""
        new = self._total - self._reported
        self._reported = self._total
        return new
