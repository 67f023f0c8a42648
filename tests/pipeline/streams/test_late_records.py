"""The stream time at each record of a task, regardless of the Arrow batches."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles
from barnabas.pipeline.delivery.micro_batches.stream_times import StreamTimes
from barnabas.pipeline.streams.late_records import timed

pd: Any = pytest.importorskip("pandas")

ROWS = st.lists(
    st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 2), st.integers(0, 100), st.booleans()),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(
    ROWS, st.integers(1, 7), st.dictionaries(st.sampled_from(["0-t", "2-u"]), st.integers(0, 99))
)
def test_stream_time_is_the_largest_of_the_partition_up_to_the_record(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, int, int, bool]],
    size: int,
    before: dict[str, int],
) -> None:
    files = CheckpointFiles(str(tmp_path_factory.mktemp("times")))
    for lane, time_ms in before.items():
        StreamTimes(files, 0).keep(lane, time_ms)
    times = StreamTimes(files, 1)
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    columns = [[pd.Series(column) for column in zip(*batch, strict=True)] for batch in batches]
    frames = list(timed((tuple(each) for each in columns), times, waits_for_all=True))
    found = [time_ms for frame in frames for time_ms in frame["stream_ms"]]

    reached = dict(before)
    expected: list[int] = []
    for topic, partition, time_ms, counts in rows:
        lane = f"{partition}-{topic}"
        newest_ms = reached.get(lane, -1)
        reached[lane] = max(newest_ms, time_ms) if counts else newest_ms
        expected.append(reached[lane])
    assert found == expected
    after = StreamTimes(files, 2)
    assert {lane: after.before(lane) for lane in reached} == reached
    slowest = {int(each) for frame in frames for each in frame["slowest_ms"]}
    assert slowest == {max(0, min(before.values(), default=-1))}
