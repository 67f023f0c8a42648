"""The stream times of partitions in the files of a checkpoint."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles
from barnabas.pipeline.delivery.micro_batches.stream_times import UNKNOWN_MS, StreamTimes, lane_of

LANE = lane_of("clicks.of/all", 3)


def at(directory: Path, batch: int, *, is_first: bool = True) -> StreamTimes:
    return StreamTimes(CheckpointFiles(str(directory)), batch, is_first)


def test_time_without_a_checkpoint_begins_with_each_epoch() -> None:
    times = StreamTimes(None, 7)
    times.keep(LANE, 5)
    assert times.before(LANE) == UNKNOWN_MS
    assert times.slowest_ms(waits_for_all=False) == UNKNOWN_MS


def test_epoch_that_is_repeated_begins_with_the_same_time(tmp_path: Path) -> None:
    at(tmp_path, 0).keep(LANE, 100)
    for _ in range(2):
        assert at(tmp_path, 1).before(LANE) == 100
        at(tmp_path, 1).keep(LANE, 250)
    assert at(tmp_path, 0).before(LANE) == UNKNOWN_MS
    assert at(tmp_path, 9).before(LANE) == 250


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50)), max_size=20))
def test_time_is_the_largest_of_all_epochs_before(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[bool, int]]
) -> None:
    directory = tmp_path_factory.mktemp("times")
    reached = UNKNOWN_MS
    for batch, (is_repeated, newest_ms) in enumerate(batches):
        for _ in range(1 + is_repeated):
            times = at(directory, batch)
            assert times.before(LANE) == reached
            times.keep(LANE, max(reached, newest_ms))
        reached = max(reached, newest_ms)


@pytest.mark.parametrize("content", [b"", b'{"0":', b"[]", b'{"0": null}'])
def test_time_begins_again_after_a_file_is_damaged(tmp_path: Path, content: bytes) -> None:
    at(tmp_path, 0).keep(LANE, 100)
    (path,) = (tmp_path / "stream-times").iterdir()
    path.write_bytes(content)
    assert at(tmp_path, 1).before(LANE) == UNKNOWN_MS
    at(tmp_path, 1).keep(LANE, 40)
    assert at(tmp_path, 2).before(LANE) == 40


def test_slowest_partition_is_one_that_has_records(tmp_path: Path) -> None:
    for lane, time_ms in ((lane_of("t", 0), 300), (lane_of("t", 1), 100)):
        at(tmp_path, 0).keep(lane, time_ms)
    assert at(tmp_path, 1).slowest_ms(waits_for_all=False) == 100
    assert at(tmp_path, 0).slowest_ms(waits_for_all=False) == UNKNOWN_MS
    assert at(tmp_path, 1, is_first=False).slowest_ms(waits_for_all=False) == UNKNOWN_MS


def test_partition_without_records_keeps_windows_open(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for batch, partitions in ((1, '{"0":5}'), (2, '{"0":5,"1":0}')):
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"t":{partitions}}}')
    at(tmp_path, 0).keep(lane_of("t", 0), 300)
    assert at(tmp_path, 1).slowest_ms(waits_for_all=True) == 300
    assert at(tmp_path, 2).slowest_ms(waits_for_all=True) == UNKNOWN_MS
    assert at(tmp_path, 2).slowest_ms(waits_for_all=False) == 300
