"""Translation of offsets of the source to those of the target, by offset syncs: sans-I/O.

An offset sync is one record with its offsets at both clusters. Of each partition at most 64 are
kept, as MirrorMaker 2 keeps them: dense near the end of the log, where groups are, and sparse
before. The first is the latest; number i + 1 is at most 2^i offsets before number i, and, unless
they are one sync, at least 2^(i-2). A sync that a newer one pushes out of its place takes a later
place where these bounds allow it.

A translated offset never skips a record: behind the record of a sync it is the offset after that
record, however many records of the source follow, because it is not known which of them were
copied. A group may read records again, never miss one.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

Partition: TypeAlias = tuple[str, int]

_COUNT: Final = 64
TOO_OLD: Final = -1
"""The translation of an offset before all syncs of its partition."""


class SyncPoint(NamedTuple):
    """The offsets of one record at the source and at the target."""

    upstream: int
    downstream: int


class PartitionSyncs:
    """The offset syncs of one partition."""

    def __init__(self) -> None:
        self._kept: list[SyncPoint] = []

    def add(self, point: SyncPoint) -> None:
        """Take in the next sync. One that goes back replaces all: the log has changed."""
        kept = self._kept
        if not kept or kept[0].upstream > point.upstream:
            self._kept = [point] * _COUNT
            return
        candidates = _Candidates(list(kept))
        kept[0] = replacement = point
        for number in range(1, _COUNT):
            replacement = candidates.best(kept, number) or replacement
            if _is_near(kept[number - 1], kept[number], number - 1):
                break
            kept[number] = replacement

    def translate(self, offset: int) -> int | None:
        """Return the target's offset for one of the source.

        None when there are no syncs, `TOO_OLD` when all are behind the offset.
        """
        for point in self._kept:
            if point.upstream <= offset:
                return point.downstream + (0 if point.upstream == offset else 1)
        return TOO_OLD if self._kept else None

    def points(self) -> list[SyncPoint]:
        """Return the different syncs that are kept, in the order of their offsets.

        They stand for all that were taken in: dense near the last one, sparse before.
        """
        return sorted(set(self._kept))


class _Candidates:
    """The syncs that were kept before one was added, each offered to the places in order."""

    def __init__(self, syncs: list[SyncPoint]) -> None:
        self._syncs = syncs
        self._next = 0

    def best(self, kept: list[SyncPoint], number: int) -> SyncPoint | None:
        """Return a sync that can have the place `number` in `kept`, None when there is none."""
        found: SyncPoint | None = None
        before = kept[number - 1]
        while True:
            at = self._next
            sync = self._syncs[at]
            is_apart = _is_apart(before, sync, number - 1)
            fits = (
                is_apart
                and _is_near(before, sync, number - 1)
                and (number + 1 >= _COUNT or _is_apart(sync, kept[number + 1], number))
            )
            if fits:
                found = sync
            is_repeated = at + 1 < _COUNT and sync is self._syncs[at + 1]
            is_passed = is_repeated or not is_apart
            if fits or is_passed:
                self._next += 1
            if not is_passed or self._next >= number:
                return found


def _is_near(later: SyncPoint, earlier: SyncPoint, number: int) -> bool:
    """True when the sync at the place `number` is near enough to the next one."""
    return later is earlier or later.upstream <= earlier.upstream + (1 << number)


def _is_apart(later: SyncPoint, earlier: SyncPoint, number: int) -> bool:
    """True when the sync at the place `number` is not too near to the next one."""
    distance = 1 << max(number - 2, 0)
    return later is earlier or later.upstream >= earlier.upstream + distance


class OffsetSyncStore:
    """The offset syncs of all partitions."""

    def __init__(self) -> None:
        self._partitions: dict[Partition, PartitionSyncs] = {}

    def add(self, where: Partition, point: SyncPoint) -> None:
        """Take in the next sync of a partition."""
        self._partitions.setdefault(where, PartitionSyncs()).add(point)

    def translate(self, where: Partition, offset: int) -> int | None:
        """Return the target's offset for one of the source; see PartitionSyncs."""
        syncs = self._partitions.get(where)
        return None if syncs is None else syncs.translate(offset)


class CopiedRun(NamedTuple):
    """The records of one batch, as it was copied."""

    first: int
    """The source's offset of the first record."""
    last: int
    """The source's offset of the last record."""
    records: int
    downstream: int
    """The target's offset of the first record; the records have no gaps there."""

    def points(self, step: int) -> Iterator[SyncPoint]:
        """Yield syncs: every `step` records without gaps at the source, else of both ends."""
        first, last = self.first, self.last
        if last - first + 1 == self.records:
            for offset in range(first, last, max(1, step)):
                yield SyncPoint(offset, self.downstream + offset - first)
        elif first != last:
            yield SyncPoint(first, self.downstream)
        yield SyncPoint(last, self.downstream + self.records - 1)


def points_of(runs: Sequence[CopiedRun], step: int) -> list[SyncPoint]:
    """Return syncs of the batches of a copy, at most 64: dense near the end, sparse before.

    Most batches are passed over, so that a copy of many batches costs little.
    """
    kept: list[CopiedRun] = []
    distance_min = 0
    for run in reversed(runs):
        distance = runs[-1].last - run.last
        if distance >= distance_min or run is runs[0]:
            kept.append(run)
            distance_min = distance + distance // 8
    syncs = PartitionSyncs()
    for run in reversed(kept):
        for point in run.points(step):
            syncs.add(point)
    return syncs.points()
