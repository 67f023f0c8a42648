"""Offsets that a running query skipped because retention deleted them: a count without I/O.

Spark's source continues at the log start offset when records are gone before it has read them, and
does not say so. The rows of a partition have a gap there. Other gaps are common: control records,
aborted records, and records that compaction removed. They are behind the log start offset, so they
do not count, unless retention deletes them in the moment in which they are read.
"""

from collections.abc import Callable, Sequence


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
