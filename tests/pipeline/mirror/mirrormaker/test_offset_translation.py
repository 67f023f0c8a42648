"""Offsets translated by offset syncs: never beyond a record that was not read."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.mirror.mirrormaker.offset_translation import (
    TOO_OLD,
    CopiedRun,
    PartitionSyncs,
    SyncPoint,
    points_of,
)

LOGS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=60)
"""Distances between the records of a log, at the source and at the target."""


def records_of(steps: list[tuple[int, int]]) -> list[SyncPoint]:
    """Return the offsets of each record at both clusters."""
    found: list[SyncPoint] = []
    upstream = downstream = 0
    for up, down in steps:
        upstream, downstream = upstream + up, downstream + down
        found.append(SyncPoint(upstream, downstream))
    return found


def syncs_of(points: list[SyncPoint]) -> PartitionSyncs:
    syncs = PartitionSyncs()
    for point in points:
        syncs.add(point)
    return syncs


def test_without_syncs_nothing_is_translated() -> None:
    assert PartitionSyncs().translate(0) is None


def test_an_offset_behind_a_sync_is_the_one_after_its_record() -> None:
    syncs = syncs_of([SyncPoint(10, 4)])
    assert [syncs.translate(at) for at in (9, 10, 11, 900)] == [TOO_OLD, 4, 5, 5]


def test_a_sync_that_goes_back_replaces_all() -> None:
    syncs = syncs_of([SyncPoint(1, 1), SyncPoint(50, 40), SyncPoint(3, 0)])
    assert [syncs.translate(at) for at in (2, 3, 60)] == [TOO_OLD, 0, 1]


@given(LOGS, st.data())
def test_no_record_is_skipped(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    """A group that has read the records before an offset reads all others at the target."""
    records = records_of(steps)
    synced = [each for each in records if data.draw(st.booleans())] or records[-1:]
    syncs = syncs_of(synced)
    offset = data.draw(st.integers(0, records[-1].upstream + 3))
    found = syncs.translate(offset)
    unread = [each.downstream for each in records if each.upstream >= offset]
    assert found is not None
    assert found == TOO_OLD or all(found <= each for each in unread)
    if found == TOO_OLD:
        assert offset < synced[-1].upstream


@given(LOGS)
def test_the_newest_records_are_translated_exactly(steps: list[tuple[int, int]]) -> None:
    records = records_of(steps)
    syncs = syncs_of(records)
    last = records[-1]
    assert syncs.translate(last.upstream) == last.downstream
    assert syncs.translate(last.upstream + 1) == last.downstream + 1


@given(LOGS)
def test_translation_is_monotonic(steps: list[tuple[int, int]]) -> None:
    records = records_of(steps)
    syncs = syncs_of(records)
    found = [syncs.translate(at) for at in range(records[-1].upstream + 2)]
    assert all(a is not None and b is not None and a <= b for a, b in pairwise(found))


@given(LOGS, st.integers(0, 60))
def test_kept_syncs_are_dense_near_the_end(steps: list[tuple[int, int]], split: int) -> None:
    """A record is translated by a sync that is at most five times as far from the end.

    Syncs that were thinned by a task are thinned again by the reader.
    """
    records = records_of(steps)
    once = syncs_of(records)
    twice = syncs_of(records[:split] + syncs_of(records[split:]).points())
    end = records[-1].upstream
    for syncs, times in ((once, 5), (twice, 25)):
        upstreams = [each.upstream for each in syncs.points()]
        assert len(upstreams) <= 64
        for record in records:
            used = max(each for each in upstreams if each <= record.upstream)
            assert end - used <= times * (end - record.upstream)


def test_points_of_a_batch() -> None:
    assert list(CopiedRun(100, 104, 5, 7).points(2)) == [(100, 7), (102, 9), (104, 11)]
    assert list(CopiedRun(100, 140, 5, 7).points(2)) == [(100, 7), (140, 11)]
    assert list(CopiedRun(100, 100, 1, 7).points(2)) == [(100, 7)]


def test_points_of_a_copy_are_few_and_dense_near_its_end() -> None:
    runs = [CopiedRun(at, at + 99, 100, at * 2) for at in range(0, 1_000_000, 100)]
    points = points_of(runs, 100)
    assert len(points) <= 64
    assert points[-2:] == [(999_900, 1_999_800), (999_999, 1_999_899)]
    assert points_of([], 100) == []
    assert points_of(runs[:1], 100) == [(0, 0), (99, 99)]
    before = [point.upstream for point in points[:-2]]
    far = [999_999 - at for at in before]
    assert all(b > a / 5 for a, b in pairwise(far))
