"""The leader epochs of the metadata log: where each epoch starts and ends."""

from collections.abc import Sequence

import attrs


@attrs.frozen(slots=True, order=True)
class OffsetAndEpoch:
    """An offset, and the epoch of the record before it; the id of a snapshot has this form."""

    offset: int
    epoch: int


class EpochHistory:
    """The epochs of a log that starts at offset 0 or at the end of a snapshot.

    `starts` are (epoch, start offset) of the records in the log; `log_start` is the snapshot that
    the log starts from, if any. Source: `LeaderEpochFileCache` and `KafkaRaftLog`.
    """

    def __init__(
        self,
        starts: Sequence[tuple[int, int]],
        end_offset: int,
        log_start: OffsetAndEpoch | None = None,
    ) -> None:
        self._starts = list(starts)
        self.end_offset = end_offset
        self.log_start = log_start

    @property
    def start_offset(self) -> int:
        """The offset of the first record in the log."""
        return self.log_start.offset if self.log_start is not None else 0

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, in the log or in its snapshot; 0 without any record."""
        if self._starts:
            return self._starts[-1][0]
        return self.log_start.epoch if self.log_start is not None else 0

    def extend(self, epoch: int, start_offset: int, end_offset: int) -> None:
        """Add records of `epoch` from `start_offset` to before `end_offset`."""
        if not self._starts or epoch > self._starts[-1][0]:
            self._starts.append((epoch, start_offset))
        self.end_offset = end_offset

    def truncate(self, offset: int) -> None:
        """Remove the records at `offset` and above."""
        self._starts = [start for start in self._starts if start[1] < offset]
        self.end_offset = min(self.end_offset, offset)

    def truncate_to_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Remove all records; the log starts from `snapshot`."""
        self._starts = []
        self.log_start = snapshot
        self.end_offset = snapshot.offset

    def start_from(self, snapshot: OffsetAndEpoch) -> None:
        """Remove the records that a snapshot of this log replaces."""
        later = [start for start in self._starts if start[1] > snapshot.offset]
        if self.end_offset > snapshot.offset and len(later) < len(self._starts):
            epoch = self._starts[len(self._starts) - len(later) - 1][0]
            later.insert(0, (epoch, snapshot.offset))
        self._starts, self.log_start = later, snapshot

    def end_of(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch up to `epoch` and its end offset.

        Where the log has no such epoch, this is its snapshot, or offset 0 in epoch 0.
        """
        found = self.log_start or OffsetAndEpoch(0, 0)
        for index, (known, start) in enumerate(self._starts):
            if known > epoch:
                return found if index else OffsetAndEpoch(start, found.epoch)
            following = self._starts[index + 1 :]
            found = OffsetAndEpoch(following[0][1] if following else self.end_offset, known)
        return found
