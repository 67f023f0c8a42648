"""Rows of a join that wait for unread rows of its other side."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels import state_codec
from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.held_rows import (
    HeldRows,
    JoinedTopics,
    has_held,
    read_mark,
    without_marks,
)
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side, in_stream_order
from barnabas.pipeline.streams.kernels.partition_times import Lane
from barnabas.pipeline.streams.kernels.stream_joins import JoinWindows, StreamJoin
from barnabas.pipeline.streams.kernels.stream_table_joins import StreamTableJoin
from tests.pipeline.streams.kernels.kernel_runs import KEYS, facts, pages_of

BOTH = frozenset({Side.LEFT, Side.RIGHT})
LANES = [Lane(side, partition, "topic") for side in (0, 1) for partition in (0, 1)]
TOPICS = JoinedTopics({"topic": tuple(BOTH)}, is_by_partition=True)
BATCHES = 5
records = st.tuples(
    st.integers(0, BATCHES - 1),
    st.sampled_from(LANES),
    st.sampled_from([*KEYS, None]),
    st.one_of(st.none(), st.integers(0, 9)),
    st.integers(-1, 60),
)
Batch = list[tuple[list[Row], bool]]
"""The rows of each lane, and whether it has unread ones."""


def split(
    taken: list[tuple[int, Lane, bytes | None, int | None, int]], ends: set[int], marks: int
) -> list[Batch]:
    """Return micro-batches, each with the rows of its number.

    A lane has unread ones when it has rows until the next of the ends, or by a bit of `marks`, as
    one does whose unread records are no rows.
    """
    taken.sort(key=lambda each: each[0])
    found: list[Batch] = []
    for number in range(BATCHES):
        end = min((each for each in ends if each >= number), default=BATCHES - 1)
        batch: Batch = []
        for place, lane in enumerate(LANES):
            rows = [
                Row(key, value, time_ms, Side(lane.side), lane.partition, offset)
                for offset, (at, where, key, value, time_ms) in enumerate(taken)
                if at == number and where == lane
            ]
            is_later = any(number < each[0] <= end and each[1] == lane for each in taken)
            is_marked = bool(marks >> (number * len(LANES) + place) & 1)
            batch.append((rows, number < end and (is_later or is_marked)))
        found.append(batch)
    return found


backlogs = st.builds(
    split,
    st.lists(records, max_size=24),
    st.sets(st.integers(0, BATCHES - 1), max_size=1),
    st.integers(0, 2 ** (BATCHES * len(LANES)) - 1) | st.just(0),
)


class Lanes:
    """The tasks that read the lanes: stream times, and marks."""

    def __init__(self) -> None:
        self.time_ms = dict.fromkeys(LANES, -1)
        self.newest_ms = dict.fromkeys(LANES, -1)

    def placed(self, batch: Batch) -> list[Row]:
        found: list[Row] = []
        marks: list[Row] = []
        for lane, (rows, is_unread) in zip(LANES, batch, strict=True):
            before_ms = self.time_ms[lane]
            marks.append(read_mark(lane, before_ms, self.newest_ms[lane], is_unread=is_unread))
            for row in rows:
                self.newest_ms[lane] = max(self.newest_ms[lane], row.timestamp_ms)
                times = {"stream_time_ms": self.newest_ms[lane], "before_ms": before_ms}
                found.append(row._replace(**times))
            self.time_ms[lane] = max(before_ms, self.newest_ms[lane])
            marks.append(read_mark(lane, self.time_ms[lane], self.newest_ms[lane]))
        if not any(is_unread for _, is_unread in batch):
            self.newest_ms = dict.fromkeys(LANES, -1)
        return found + marks


def results(kernel: RowKernel, batches: Sequence[Batch]) -> list[list[tuple[object, ...]]]:
    """Return the sorted outputs of each partition, and the rows that were dropped."""
    lanes, state, outputs = Lanes(), BucketState(), list[Row]()
    topics = TOPICS if not kernel.has_one_task else JoinedTopics(TOPICS.sides, False)
    dropped: list[tuple[object, ...]] = []
    for batch in batches:
        ordered = in_stream_order(lanes.placed(batch), kernel.first)
        held = HeldRows(without_marks(ordered), kernel.first, topics)
        ordered += held.times() if kernel.acts_on_time else []
        outputs += kernel.step(held.exchange(ordered, state), state)
        dropped += [(reason, "", number) for reason, number in state.dropped.items()]
        state = state_codec.decode(state_codec.encode(state, {}), {})
        if not any(is_unread for _, is_unread in batch):
            assert not has_held(state)
    found = [sorted(map(repr, facts(r for r in outputs if r.partition == n))) for n in (0, 1)]
    totals: dict[object, int] = {}
    for reason, _, number in dropped:
        totals[reason] = totals.get(reason, 0) + int(str(number))
    return [*found, sorted(totals.items(), key=repr)]


def at_once(batches: Sequence[Batch]) -> list[Batch]:
    """Return each backlog as one micro-batch."""
    found: list[Batch] = []
    rows: list[list[Row]] = [[] for _ in LANES]
    for number, batch in enumerate(batches, 1):
        for lane, (more, _) in zip(rows, batch, strict=True):
            lane += more
        if number == len(batches) or not any(is_unread for _, is_unread in batch):
            found.append([(lane, False) for lane in rows])
            rows = [[] for _ in LANES]
    return found


def joined(key: bytes | None, left: object, right: object) -> object:
    return [left, right]


@settings(deadline=None)
@given(
    backlogs,
    st.builds(JoinWindows, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from([frozenset[Side](), frozenset({Side.LEFT}), BOTH]),
    st.booleans(),
)
def test_join_of_a_backlog_in_any_micro_batches_is_that_of_one_micro_batch(
    batches, windows, outer, is_eager
) -> None:
    kernel = StreamJoin(joined, windows, outer, is_eager)
    with pages_of(3):
        found = results(kernel, batches)
    assert found == results(kernel, at_once(batches))


@settings(deadline=None)
@given(backlogs, st.booleans())
def test_stream_table_join_of_a_backlog_in_any_micro_batches_is_that_of_one_micro_batch(
    batches, is_left
) -> None:
    kernel = StreamTableJoin(joined, is_left)
    assert results(kernel, batches) == results(kernel, at_once(batches))
