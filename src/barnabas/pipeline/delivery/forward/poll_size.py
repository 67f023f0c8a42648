"""The number of records that a writer gets at once: a decision, without input or output."""

from typing import Final

import attrs

_FIRST: Final = 16
_LONG_S: Final = 1.0
_SHORT_S: Final = 0.25


@attrs.define
class PollSize:
    """Few records at first, then as many as the writer takes in less than a second.

    A transaction ends between two polls only, and must end before its timeout.
    """

    most: int
    records: int = attrs.field(init=False)
    """The largest number of records of the next poll."""

    def __attrs_post_init__(self) -> None:
        self.records = min(_FIRST, self.most)

    def note(self, records: int, elapsed_s: float) -> None:
        """Note the time in which the writer took as many records (at least 1)."""
        if elapsed_s > _LONG_S:
            self.records = max(1, min(self.records // 2, int(records * _LONG_S / elapsed_s)))
        elif elapsed_s < _SHORT_S and records >= self.records:
            self.records = min(2 * self.records, self.most)
