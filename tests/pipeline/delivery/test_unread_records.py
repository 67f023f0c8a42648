"""Records that micro-batches left unread, by the checkpoint and the ends of partitions."""

import json
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles
from barnabas.pipeline.delivery.micro_batches.stream_times import UNKNOWN_MS, Partition, StreamTimes
from barnabas.pipeline.delivery.micro_batches.unread_records import ReadTopics, UnreadRecords

LIMIT = 10


@attrs.frozen
class Topics(ReadTopics):
    """Topics whose ends the test gives; without them, no request may be sent."""

    given: Mapping[Partition, int] | None = None

    def ends(self, partitions: Mapping[Partition, int]) -> dict[Partition, int]:
        assert self.given is not None
        return {each: self.given[each] for each in partitions}


def read(directory: Path, batch: int, *sources: Mapping[str, object]) -> None:
    """Write the offsets at the end of a micro-batch, as Spark does."""
    lines = ["v1", "{}", *map(json.dumps, sources)]
    (directory / "offsets").mkdir(exist_ok=True)
    (directory / "offsets" / str(batch)).write_text("\n".join(lines))


def at(
    directory: Path,
    batch: int,
    ends: Mapping[Partition, int] | None = None,
    *,
    is_first: bool = True,
    is_settled: bool = False,
    stops_at: Mapping[Partition, int] | None = None,
) -> UnreadRecords:
    times = StreamTimes(CheckpointFiles(str(directory)), batch, is_first, is_settled, stops_at)
    return UnreadRecords(times, Topics({"l": LIMIT, "r": LIMIT}, {}, ends))


def unread(found: UnreadRecords) -> list[Partition]:
    return [(topic, number) for topic, number, is_unread in found.partitions() if is_unread]


def files_of(directory: Path) -> list[Path]:
    return [*directory.glob("stream-times/*")]


def test_micro_batch_below_the_limit_has_read_all_and_sends_no_request(tmp_path: Path) -> None:
    read(tmp_path, 0, {"l": {"0": 4}}, {"r": {"0": 3, "1": 4}})
    read(tmp_path, 1, {"l": {"0": 12}}, {"r": {"0": 3, "1": 11}})
    for batch in (0, 1):
        found = at(tmp_path, batch)
        assert (found.is_open, found.partitions(), found.newest_before("l")) == (False, [], -1)
    assert files_of(tmp_path) == []


def test_full_micro_batch_leaves_what_is_before_the_ends(tmp_path: Path) -> None:
    """One less than the limit may have been cut: shares are rounded down."""
    read(tmp_path, 0, {"l": {"0": 3}}, {"r": {"0": 4, "1": 4}})
    found = at(tmp_path, 0, {("r", 0): 5, ("r", 1): 4})
    assert found.is_open
    assert found.partitions() == [("l", 0, False), ("r", 0, True), ("r", 1, False)]


def test_query_that_stops_at_its_first_ends_waits_for_nothing_behind_them(tmp_path: Path) -> None:
    """It does not read a partition that is created later."""
    stops_at = {("l", 0): 2 * LIMIT}
    read(tmp_path, 0, {"l": {"0": LIMIT}})
    assert unread(at(tmp_path, 0, stops_at=stops_at)) == [("l", 0)]
    read(tmp_path, 1, {"l": {"0": 2 * LIMIT, "1": 1}})
    assert unread(at(tmp_path, 1, stops_at=stops_at)) == []


def test_other_tasks_than_the_first_send_no_request(tmp_path: Path) -> None:
    read(tmp_path, 0, {"l": {"0": LIMIT}})
    found = at(tmp_path, 0, is_first=False)
    assert (found.is_open, found.partitions()) == (True, [])


@pytest.mark.parametrize(("end", "expected"), [(LIMIT + 1, [("l", 0)]), (LIMIT, [])])
def test_repeated_micro_batch_has_the_same_answer(tmp_path: Path, end: int, expected) -> None:
    read(tmp_path, 0, {"l": {"0": LIMIT}})
    assert unread(at(tmp_path, 0, {("l", 0): end})) == expected
    assert unread(at(tmp_path, 0)) == expected


def test_written_micro_batch_without_an_answer_had_nothing_unread(tmp_path: Path) -> None:
    """As one of a release that did not ask, or with another limit."""
    read(tmp_path, 0, {"l": {"0": LIMIT}})
    assert not at(tmp_path, 0, is_settled=True).is_open
    assert unread(at(tmp_path, 0, {("l", 0): LIMIT + 1})) == [("l", 0)]
    assert unread(at(tmp_path, 0, is_settled=True)) == [("l", 0)]


def test_micro_batch_after_a_full_one_ends_the_backlog(tmp_path: Path) -> None:
    for batch, offset in enumerate((LIMIT, 2 * LIMIT, 2 * LIMIT + 1, 2 * LIMIT + 2)):
        read(tmp_path, batch, {"l": {"0": offset}})
    assert unread(at(tmp_path, 0, {("l", 0): 21})) == [("l", 0)]
    assert unread(at(tmp_path, 1, {("l", 0): 21})) == [("l", 0)]
    last = at(tmp_path, 2)
    assert (last.is_open, last.partitions()) == (True, [("l", 0, False)])
    assert not at(tmp_path, 3).is_open


def test_topic_of_two_sources_is_read_as_far_as_the_first_one(tmp_path: Path) -> None:
    read(tmp_path, 0, {"l": {"0": LIMIT}}, {"l": {"0": LIMIT - 2}})
    assert unread(at(tmp_path, 0, {("l", 0): LIMIT})) == [("l", 0)]


def test_sources_other_than_topics_have_nothing_unread(tmp_path: Path) -> None:
    read(tmp_path, 0, {"logOffset": 100}, {"other": {"0": 100}})
    assert not at(tmp_path, 0).is_open


def test_query_without_a_checkpoint_has_nothing_unread() -> None:
    found = UnreadRecords(StreamTimes(None, 0), Topics({}, {}))
    found.keep("lane", 5)
    assert (found.is_open, found.partitions(), found.newest_before("lane")) == (False, [], -1)


@given(st.lists(st.tuples(st.booleans(), st.none() | st.integers(0, 50)), max_size=8))
def test_newest_time_is_that_since_the_backlog_began(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[bool, int | None]]
) -> None:
    """Each micro-batch runs twice."""
    directory = tmp_path_factory.mktemp("times")
    newest, was_unread = UNKNOWN_MS, False
    for batch, (is_unread, time_ms) in enumerate(batches):
        newest = newest if was_unread else UNKNOWN_MS
        read(directory, batch, {"l": {"0": LIMIT * (batch + 1)}})
        for _ in range(2):
            found = at(directory, batch, {("l", 0): LIMIT * (batch + 1) + is_unread})
            assert unread(found) == [("l", 0)] * is_unread
            assert found.newest_before("lane") == newest
            if time_ms is not None:
                found.keep("lane", max(newest, time_ms))
        newest = newest if time_ms is None else max(newest, time_ms)
        was_unread = is_unread
