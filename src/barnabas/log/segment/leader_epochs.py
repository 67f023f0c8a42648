"""The start offset of each leader epoch in a log (Kafka's `LeaderEpochFileCache`, KIP-101)."""

from bisect import bisect_right
from typing import Final, NamedTuple

UNKNOWN_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """An epoch and the offset of the first batch that was appended in it."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs and their start offsets, both ascending.

    `is_dirty` is True when the file differs; the log writes it before the next append.
    """

    __slots__ = ("entries", "is_dirty")

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self.entries = entries or []
        self.is_dirty = False

    @property
    def latest(self) -> int:
        """The last epoch, -1 before any."""
        return self.entries[-1].epoch if self.entries else UNKNOWN_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add an epoch; an epoch that is not later than the last one is ignored.

        Epochs without records, which start at the same offset, are removed.
        """
        entries = self.entries
        if entries and epoch <= entries[-1].epoch:
            return
        while entries and entries[-1].start_offset >= start_offset:
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.is_dirty = True

    def truncate_end(self, end_offset: int) -> None:
        """Remove the epochs that start at `end_offset` or above."""
        entries = self.entries
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
            self.is_dirty = True

    def truncate_start(self, start_offset: int) -> None:
        """Remove the epochs that end before `start_offset`, where the remaining ones then start."""
        entries = self.entries
        number = self._number_at(start_offset)
        if number > 0 or (number == 0 and entries[0].start_offset < start_offset):
            kept = EpochEntry(entries[number].epoch, start_offset)
            self.entries = [kept, *entries[number + 1 :]]
            self.is_dirty = True

    def clear(self) -> None:
        """Remove all epochs."""
        self.is_dirty = self.is_dirty or bool(self.entries)
        self.entries = []

    def at(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 if unknown."""
        number = self._number_at(offset)
        return self.entries[number].epoch if number >= 0 else UNKNOWN_EPOCH

    def _number_at(self, offset: int) -> int:
        return bisect_right(self.entries, offset, key=lambda entry: entry.start_offset) - 1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the last known epoch up to `epoch`, and its end offset.

        For an epoch later than all, return (-1, -1) (`LeaderEpochFileCache.endOffsetFor`). For one
        before the first, return that epoch and the first start offset.
        """
        entries = self.entries
        if epoch == UNKNOWN_EPOCH or not entries:
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        if epoch == entries[-1].epoch:
            return epoch, log_end_offset
        higher = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if higher == len(entries):
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        if higher == 0:
            return epoch, entries[0].start_offset
        return entries[higher - 1].epoch, entries[higher].start_offset
