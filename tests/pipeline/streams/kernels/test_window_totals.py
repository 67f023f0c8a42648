"""Totals of windows, against a plain loop over the records."""

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.arrow_library import pa
from barnabas.pipeline.streams.kernels.bucket_tasks import state_of
from barnabas.pipeline.streams.kernels.partial_totals import partial_totals
from barnabas.pipeline.streams.kernels.time_windows import TimeWindows
from barnabas.pipeline.streams.kernels.totals_query import TotalsPlan, closed
from barnabas.pipeline.streams.kernels.window_totals import WindowTotals

BUCKETS = 2


class Record(NamedTuple):
    partition: int
    key: bytes | None
    value: int | Decimal | None
    timestamp_ms: int


class Found(NamedTuple):
    key: bytes
    start_ms: int
    total: Any
    newest_ms: int


class KnownTimes:
    """The times of partitions, as the checkpoint keeps them."""

    def __init__(self) -> None:
        self.times: dict[str, int] = {}

    def before(self, lane: str) -> int:
        return self.times.get(lane, -1)

    def keep(self, lane: str, time_ms: int) -> None:
        self.times[lane] = time_ms


@attrs.define
class State:
    """Spark's state of a bucket."""

    blob: bytes | None = None

    @property
    def exists(self) -> bool:
        return self.blob is not None

    @property
    def get(self) -> tuple[bytes | None]:
        return (self.blob,)

    def update(self, found: tuple[bytes]) -> None:
        (self.blob,) = found


@attrs.define
class Query:
    """The two steps of a query without Spark; each partition is read by a task."""

    plan: TotalsPlan
    kind: Any = attrs.field(factory=pa.int64)
    times: KnownTimes = attrs.field(factory=KnownTimes)
    states: dict[int, State] = attrs.field(factory=lambda: defaultdict[int, State](State))
    late: int = 0

    def run(self, records: Sequence[Record], size: int = 3) -> list[Found]:
        """Return the totals that a micro-batch closes, and count what is late."""
        frames = self.frames(records, size)
        found: list[Found] = []
        for bucket in range(BUCKETS):
            mine = [self._of_bucket(frame, bucket) for frame in frames]
            for frame in closed(self.plan, mine, self.states[bucket]):
                self.late += int(frame["late"].sum())
                names = ("key", "start_ms", "total", "timestamp_ms")
                rows = zip(*(frame[name].tolist() for name in names), strict=True)
                found += [Found(*row) for row in rows if row[0] is not None]
        return found

    def frames(self, records: Sequence[Record], size: int = 3) -> list[Any]:
        """Return what the tasks of a micro-batch make of its records."""
        return [
            part.to_pandas()
            for number in sorted({each.partition for each in records})
            for part in self._parts([each for each in records if each.partition == number], size)
        ]

    def _parts(self, records: Sequence[Record], size: int) -> Iterator[Any]:
        batches = [
            pa.RecordBatch.from_pydict(
                {
                    "key": pa.array([each.key for each in taken], pa.binary()),
                    "value": pa.array([each.value for each in taken], self.kind),
                    "timestamp_ms": pa.array([each.timestamp_ms for each in taken], pa.int64()),
                    "partition": pa.array([each.partition for each in taken], pa.int32()),
                    "source": ["topic"] * len(taken),
                }
            )
            for taken in (records[at : at + size] for at in range(0, len(records), size))
        ]
        return partial_totals(self.plan.kernel.windows, BUCKETS, batches, self.times)

    def _of_bucket(self, frame: Any, bucket: int) -> Any:
        """Return the rows of a bucket, as Spark's expressions choose them."""
        new_keys = self.plan.kernel.has_new_keys
        keys = [None if key is None else zlib.crc32(key) for key in frame["key"]]
        chosen = [
            given if key is None else key % BUCKETS
            for key, given in zip(keys, frame["bucket"], strict=True)
        ]
        if new_keys:
            numbers = zip(keys, frame["partition"], strict=True)
            frame = frame.assign(
                partition=[
                    old if key is None else key % self.plan.partitions for key, old in numbers
                ]
            )
        return frame[[each == bucket for each in chosen]]


def query(windows: TimeWindows, *, has_new_keys: bool = False, kind: str = "bigint") -> Query:
    return Query(TotalsPlan(WindowTotals(windows, has_new_keys), BUCKETS, 3, kind))


@attrs.define
class Loop:
    """The reference: each record in turn, with the time of its partition."""

    windows: TimeWindows
    now_ms: dict[int, int] = attrs.field(factory=dict[int, int])
    open: dict[tuple[int, bytes, int], list[int]] = attrs.field(
        factory=dict[tuple[int, bytes, int], list[int]]
    )
    late: int = 0

    def run(self, records: Sequence[Record]) -> list[Found]:
        for each in records:
            self._take(each)
        over = [name for name in self.open if self._is_over(name[2], name[0])]
        return [Found(name[1], name[2], *self.open.pop(name)) for name in over]

    def _take(self, record: Record) -> None:
        partition, key, value, at_ms = record
        if key is None:
            return
        self.now_ms[partition] = max(self.now_ms.get(partition, -1), at_ms)
        if not isinstance(value, int) or at_ms < 0:
            return
        for start_ms in range(0, at_ms + 1, self.windows.advance_ms):
            if start_ms + self.windows.size_ms <= at_ms:
                continue
            if self._is_over(start_ms, partition):
                self.late += 1
                continue
            total, newest_ms = self.open.get((partition, key, start_ms), (0, -1))
            self.open[partition, key, start_ms] = [total + value, max(newest_ms, at_ms)]

    def _is_over(self, start_ms: int, partition: int) -> bool:
        end_ms = start_ms + self.windows.size_ms + self.windows.grace_ms
        return end_ms <= self.now_ms.get(partition, -1)


forms = st.integers(1, 12).flatmap(
    lambda size: st.builds(
        TimeWindows, st.just(size), st.integers(1, size), st.sampled_from([0, 3, 20])
    )
)
keys = st.sampled_from([b"a", b"b", b"c", None])
batches = st.lists(
    st.lists(
        st.builds(
            Record,
            st.integers(0, 2),
            keys,
            st.one_of(st.none(), st.integers(-9, 9)),
            st.integers(-2, 60),
        ),
        max_size=12,
    ),
    max_size=5,
)


@settings(deadline=None)
@given(batches, forms, st.integers(1, 5))
def test_each_window_has_its_total_once_when_its_partition_is_past_it(
    taken: list[list[Record]], windows: TimeWindows, size: int
) -> None:
    ours, loop = query(windows), Loop(windows)
    for batch in taken:
        assert Counter(ours.run(batch, size)) == Counter(loop.run(batch))
        assert ours.late == loop.late


@settings(deadline=None)
@given(batches, forms)
def test_every_record_with_a_new_key_is_in_a_total_or_counted_as_late(
    taken: list[list[Record]], windows: TimeWindows
) -> None:
    ones = [[each._replace(value=1) for each in batch] for batch in taken]
    ours = query(windows, has_new_keys=True)
    sent = [found for batch in ones for found in ours.run(batch)]
    assert len({(each.key, each.start_ms) for each in sent}) == len(sent)
    held = [
        total
        for state in ours.states.values()
        if state.blob is not None
        for task in state_of(state.blob, ours.plan.signature).tasks.values()
        for totals in task.stores.values()
        if isinstance(totals, Mapping)
        for total, _ in totals.values()
    ]
    valued = [each for batch in ones for each in batch if each.key and each.timestamp_ms >= 0]
    windows_of = [len(windows.of(each.timestamp_ms)) for each in valued]
    assert sum(each.total for each in sent) + sum(held) + ours.late == sum(windows_of)


def test_a_window_that_an_earlier_micro_batch_closed_counts_all_rows_of_a_part_as_late() -> None:
    ours = query(TimeWindows(10, 10), has_new_keys=True)
    assert ours.run([Record(0, b"a", 1, 3), Record(0, b"a", 1, 25)]) == [Found(b"a", 0, 1, 3)]
    assert ours.run([Record(1, b"a", 1, 4), Record(1, b"a", 1, 5)]) == []
    assert ours.late == 2


def test_decimals_and_sums_beyond_an_intermediate_overflow_are_exact() -> None:
    big = 2**62
    ours = query(TimeWindows(10, 10))
    records = [Record(0, b"a", value, 1) for value in (big, big, -big)]
    assert ours.run([*records, Record(0, b"b", 1, 30)]) == [Found(b"a", 0, big, 1)]
    ours = query(TimeWindows(10, 10), kind="decimal(38,2)")
    ours.kind = pa.decimal128(38, 2)
    exact = Decimal("12345678901234567890123456789012.34")
    twice = Decimal("24691357802469135780246913578024.68")
    for _ in range(2):
        assert ours.run([Record(0, b"a", exact, 1)]) == []
    assert ours.run([Record(0, b"b", Decimal(1), 30)]) == [Found(b"a", 0, twice, 1)]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_sum_beyond_its_type_ends_the_query(batches: int) -> None:
    ours = query(TimeWindows(10, 10))
    big = [Record(0, b"a", 2**62, 1)] * 2
    end = Record(0, b"b", 1, 30)
    first, last = ([], [*big, end]) if batches == 1 else (big[:1], [big[1], end])
    ours.run(first)
    with pytest.raises(TaskFailureError, match=r"beyond its type.*DECIMAL") as found:
        ours.run(last)
    assert found.value.failure.is_permanent


def test_a_state_of_other_windows_is_refused() -> None:
    ours = query(TimeWindows(10, 10))
    ours.run([Record(0, key, 1, 1) for key in (b"a", b"b", b"c")])
    longer = attrs.evolve(ours, plan=query(TimeWindows(20, 10)).plan)
    with pytest.raises(TaskFailureError, match="size_ms is 10 in the state and 20 in the query"):
        longer.run([Record(0, b"a", 1, 2)])


def test_a_micro_batch_that_closes_no_window_touches_the_buckets_of_its_keys_only() -> None:
    ours = query(TimeWindows(10, 10, 5))
    assert ours.run([Record(0, b"a", 1, at_ms) for at_ms in (1, 14)]) == []
    assert sum(state.exists for state in ours.states.values()) == 1
    assert [frame["key"].tolist() for frame in ours.frames([Record(0, b"a", 1, 13)])] == [[b"a"]]
