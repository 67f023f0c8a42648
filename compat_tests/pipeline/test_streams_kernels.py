"""Kernels in Spark: rows in buckets, states that survive a restart, results in micro-batches."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.streams.kernels.held_rows import JoinedTopics
from barnabas.pipeline.streams.kernels.kernel_chain import Chain
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from barnabas.pipeline.streams.kernels.partition_times import NO_BACKLOG
from barnabas.pipeline.streams.kernels.session_windows import SessionWindowAggregate
from barnabas.pipeline.streams.kernels.stream_aggregates import StreamAggregate, counting
from barnabas.pipeline.streams.kernels.stream_joins import JoinWindows, StreamJoin
from barnabas.pipeline.streams.kernels.stream_table_joins import StreamTableJoin
from barnabas.pipeline.streams.kernels.suppression import until_time_limit
from barnabas.pipeline.streams.kernels.time_windows import TimeWindowAggregate, TimeWindows
from barnabas.pipeline.streams.kernels.user_kernels import Process
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually

pytestmark = [
    setup.needed,
    pytest.mark.timeout(300),
]

BUCKETS = 8
PARTITIONS = 2
JOIN = StreamTableJoin(lambda key, left, right: left + b"/" + right)


def sessions() -> SessionWindowAggregate:
    return SessionWindowAggregate(5_000, counting(), lambda key, one, two: one + two, 10_000)


class StoredState:
    """One state, as Spark's GroupState."""

    def __init__(self) -> None:
        self.content: tuple[bytes] | None = None

    @property
    def exists(self) -> bool:
        return self.content is not None

    @property
    def get(self) -> tuple[bytes] | None:
        return self.content

    def update(self, content: tuple[bytes]) -> None:
        self.content = content


class Times:
    """The stream times of partitions, as a checkpoint keeps them."""

    def __init__(self) -> None:
        self.kept: dict[str, int] = {}

    def before(self, lane: str) -> int:
        return self.kept.get(lane, -1)

    def keep(self, lane: str, time_ms: int) -> None:
        self.kept[lane] = time_ms


class Backlog:
    """What micro-batches left unread, as a checkpoint keeps it."""

    is_open = True

    def __init__(self) -> None:
        self.newest: dict[str, int] = {}
        self.read: list[tuple[str, int, bool]] = []

    def newest_before(self, lane: str) -> int:
        return self.newest.get(lane, -1)

    def keep(self, lane: str, newest_ms: int) -> None:
        self.newest[lane] = newest_ms

    def partitions(self) -> list[tuple[str, int, bool]]:
        """Return what was read, to the first task that asks."""
        found, self.read = self.read, []
        return found


class Buckets:
    """The tasks of a query, without Spark: place, shuffle, step."""

    def __init__(self, plan: Any, backlog: Any = NO_BACKLOG) -> None:
        self.plan = plan
        self.states: dict[int, StoredState] = {}
        self.times = Times()
        self.backlog = backlog

    def run(self, *source_tasks: Sequence[Row]) -> list[Row]:
        import pyarrow as pa

        from barnabas.pipeline.streams.kernels import bucket_tasks

        placed = [
            batch
            for rows in source_tasks
            for batch in bucket_tasks.place(
                self.plan, batches(rows) if rows else [], self.times, self.backlog
            )
        ]
        frame = pa.Table.from_batches(placed).to_pandas()
        return [row for group in frame.groupby("bucket") for row in self.step(*group)]

    def tick(self, time_ms: int) -> list[Row]:
        """Let the wall clock reach a time, in all buckets."""
        import pyarrow as pa

        frame = pa.Table.from_batches(batches([Row(None, None, time_ms, Side.CLOCK)])).to_pandas()
        return [row for number in range(self.plan.buckets) for row in self.step(number, frame)]

    def step(self, bucket: int, frame: Any) -> Iterator[Row]:
        from barnabas.pipeline.streams.kernels import bucket_rows, bucket_tasks

        state = self.states.setdefault(bucket, StoredState())
        for found in bucket_tasks.step(self.plan, [frame], state):
            columns = {name: list(found[name]) for name in bucket_rows.COLUMNS}
            columns["window_start_ms"] = columns["window_end_ms"] = [None] * len(found)
            yield from bucket_rows.rows_of(columns)


def batches(rows: Sequence[Row]) -> list[Any]:
    import pyarrow as pa

    from barnabas.pipeline.streams.kernels import bucket_rows

    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    kinds = {"binary": pa.binary(), "bigint": pa.int64(), "int": pa.int32()}
    columns = bucket_rows.columns_of(rows)
    types = {name: kinds.get(kind, header) for name, (kind, _) in bucket_rows.COLUMNS.items()}
    arrays = {name: pa.array(columns[name], types[name]) for name in columns}
    arrays["bucket_key"] = arrays["key"]
    arrays["source"] = pa.array(["topic"] * len(rows))
    return [pa.RecordBatch.from_pydict(arrays)]


def plan_of(
    kernel: Kernel,
    buckets: int = BUCKETS,
    partitions: int | None = None,
    joined: JoinedTopics | None = None,
) -> Any:
    from barnabas.pipeline.streams.kernels.bucket_tasks import BucketPlan

    return BucketPlan(kernel, buckets, partitions, joined)


def key(number: int) -> bytes:
    return b"key-%d" % number


def test_rows_of_all_buckets_have_the_stream_time_of_their_partition() -> None:
    """The row at 3 is late because of a row of another bucket."""
    times = [5, 100, 3]
    rows = [Row(key(place), b"v", time_ms, offset=place) for place, time_ms in enumerate(times)]
    counts = Buckets(plan_of(StreamAggregate(counting_bytes())))
    found = counts.run(rows)
    assert sorted((row.timestamp_ms, row.stream_time_ms) for row in found) == [
        (3, 100),
        (5, 5),
        (100, 100),
    ]


def test_rows_of_all_buckets_have_the_stream_time_of_the_micro_batches_before() -> None:
    """The row at 3 is late because of a row of another bucket, in an earlier micro-batch."""
    counts = Buckets(plan_of(TimeWindowAggregate(TimeWindows(10, 10), counting_bytes())))
    assert len(counts.run([Row(key(1), b"v", 100)])) == 1
    later = [Row(key(2), b"v", 3, offset=1), Row(key(3), b"v", 3, partition=1)]
    (accepted, *late) = sorted(counts.run(later), key=lambda row: row.side)
    assert (accepted.key, [(row.side, row.offset) for row in late]) == (key(3), [(Side.LATE, 1)])


def counting_bytes() -> Any:
    from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation

    return Aggregation(lambda key, value, count: b"%d" % (int(count) + 1), lambda: b"0")


def test_time_of_a_partition_reaches_buckets_without_rows() -> None:
    held = Buckets(plan_of(until_time_limit(10)))
    assert held.run([Row(key(1), b"v", 5)]) == []
    found = held.run([Row(key(2), b"v", 15, offset=1)])
    assert [row.key for row in found] == [key(1)]


def test_time_of_a_partition_makes_no_states_of_empty_buckets() -> None:
    held = Buckets(plan_of(until_time_limit(10), buckets=64))
    held.run([Row(key(1), b"v", 5)])
    assert sum(state.exists for state in held.states.values()) == 1


def test_time_of_a_partition_writes_states_that_it_changes_only() -> None:
    class Ticking:
        def process(self, row: Row, context: Any) -> list[Row]:
            return []

        def punctuate(self, row: Row, context: Any) -> list[Row]:
            store = context.store("ticks")
            store["count"] = store.get("count", 0) + 1
            return []

    ticking = Buckets(plan_of(Process(Ticking(), "ticks", every_ms=10)))
    (place, other) = (bucket_number(key(1)), bucket_number(key(2)))
    assert place != other
    ticking.run([Row(key(1), b"v", 5)])
    first = ticking.states[place].content
    ticking.run([Row(key(2), b"v", 8, offset=1)])
    assert ticking.states[place].content == first
    ticking.run([Row(key(2), b"v", 12, offset=2)])
    assert ticking.states[place].content != first


BOTH_SIDES = frozenset({Side.LEFT, Side.RIGHT})


def uneven_rows() -> list[list[Row]]:
    """Return the rows of two partitions on both sides; one side has a tenth of the rows."""
    rates = {Side.LEFT: 1, Side.RIGHT: 10}
    return [
        [
            Row(key(number % 7), b"%d" % number, number * step_ms, side, partition, number)
            for number in range(300 // step_ms)
        ]
        for side, step_ms in rates.items()
        for partition in (0, 1)
    ]


@pytest.mark.parametrize("partitions", [None, 4])
def test_join_of_a_backlog_in_buckets_is_that_of_one_micro_batch(partitions) -> None:
    """The last micro-batch has no rows: what waits in all buckets follows without them."""
    join = StreamJoin(
        lambda key, left, right: (left or b"-") + b"/" + (right or b"-"),
        JoinWindows(2, 2),
        BOTH_SIDES,
    )
    topics = JoinedTopics({"topic": (Side.LEFT, Side.RIGHT)}, is_by_partition=partitions is None)
    at_once = Buckets(plan_of(join, partitions=partitions)).run(*uneven_rows())
    backlog = Backlog()
    held = Buckets(plan_of(join, partitions=partitions, joined=topics), backlog)
    found: list[Row] = []
    for start in range(0, 300, 30):
        backlog.read = [("topic", partition, True) for partition in (0, 1)]
        found += held.run(*(rows[start : start + 30] for rows in uneven_rows()))
    assert 0 < len(found) < len(at_once)
    backlog.read = [("topic", partition, False) for partition in (0, 1)]
    found += held.run([])
    assert sorted(each.value for each in found) == sorted(each.value for each in at_once)


def test_rows_that_change_no_state_write_none() -> None:
    joined = Buckets(plan_of(JOIN))
    joined.run([Row(key(1), b"r", 5, Side.RIGHT)])
    first = joined.states[bucket_number(key(1))].content
    assert [row.value for row in joined.run([Row(key(1), b"l", 6)])] == [b"l/r"]
    assert joined.states[bucket_number(key(1))].content is first
    joined.run([Row(key(1), b"s", 7, Side.RIGHT, offset=1)])
    assert joined.states[bucket_number(key(1))].content is not first


def test_damaged_page_of_a_state_is_a_permanent_failure_with_the_remedy() -> None:
    joined = Buckets(plan_of(JOIN, buckets=1))
    keys = [key(number) for number in range(100)]
    joined.run([Row(each, b"value", 5, Side.RIGHT) for each in keys])
    (blob,) = joined.states[0].content
    joined.states[0].content = (blob.replace(b"\xc4\x05value", b"\xc1" * 7),)
    with pytest.raises(TaskFailureError, match="state of stream-table-join is damaged") as raised:
        joined.run([Row(each, b"l", 6) for each in keys])
    assert raised.value.failure.is_permanent
    assert "rebuild" in str(raised.value)


def test_wall_clock_makes_no_states_and_writes_those_that_it_changes_only() -> None:
    class Flushed:
        def process(self, row: Row, context: Any) -> list[Row]:
            context.store("held")[row.key] = True
            return []

        def punctuate_wall_clock(self, row: Row, context: Any) -> list[Row]:
            held = context.store("held")
            found = [row._replace(key=name, value=b"") for name in held]
            held.clear()
            return found

    buckets = Buckets(plan_of(Process(Flushed(), "held")))
    buckets.run([Row(key(1), b"v", 5)])
    first = buckets.states[bucket_number(key(1))].content
    assert [(each.key, each.timestamp_ms) for each in buckets.tick(70)] == [(key(1), 70)]
    second = buckets.states[bucket_number(key(1))].content
    assert first != second
    assert buckets.tick(80) == []
    assert buckets.states[bucket_number(key(1))].content is second
    assert sum(state.exists for state in buckets.states.values()) == 1


def test_clock_source_has_a_row_when_a_multiple_is_reached(monkeypatch) -> None:
    from barnabas.pipeline.streams import clock_source

    times = iter([5, 9, 12, 18, 45, 44, 51])
    monkeypatch.setattr(clock_source, "_now_ms", lambda: next(times))
    reader = clock_source.ClockReader(10)
    first = reader.initialOffset()
    offsets = [first, *(reader.latestOffset() for _ in range(6))]
    assert [each["time_ms"] for each in offsets] == [5, 5, 12, 12, 45, 45, 51]

    def read(start: dict[str, int], end: dict[str, int]) -> list[tuple[int]]:
        return [row for part in reader.partitions(start, end) for row in reader.read(part)]

    found = [read(start, end) for start, end in itertools.pairwise(offsets)]
    assert found == [[], [(12,)], [], [(45,)], [], [(51,)]]


def test_clock_source_that_starts_again_has_a_row_for_the_times_that_it_missed(
    monkeypatch,
) -> None:
    from barnabas.pipeline.streams import clock_source

    times = iter([18, 47, 48])
    monkeypatch.setattr(clock_source, "_now_ms", lambda: next(times))
    for committed, due in [(12, []), (12, [47]), (51, [])]:  # the last clock was ahead
        reader = clock_source.ClockReader(10)
        parts = reader.partitions({"time_ms": committed}, reader.latestOffset())
        assert [part.value for part in parts] == due


def bucket_number(name: bytes) -> int:
    from barnabas.pipeline.streams.kernels.bucket_tasks import bucket_of

    return bucket_of(name, BUCKETS)


def test_rows_of_two_sides_are_joined_in_the_order_of_time() -> None:
    stream = [Row(key(1), b"early", 1), Row(key(1), b"late", 3, offset=1)]
    table = [Row(key(1), b"t", 2, Side.RIGHT, 7)]
    found = Buckets(plan_of(JOIN)).run(stream, table)
    assert [row.value for row in found] == [b"late/t"]


def test_rows_with_changed_keys_share_the_partition_of_their_key() -> None:
    rows = [Row(key(1), b"v", 5, partition=number) for number in (0, 1)]
    apart = Buckets(plan_of(until_time_limit(10)))
    apart.run(rows)
    together = Buckets(plan_of(until_time_limit(10), partitions=4))
    together.run(rows)
    end = [Row(key(2), b"v", 100, partition=9)]
    assert [len(buckets.run(end)) for buckets in (apart, together)] == [0, 1]


def test_time_reaches_the_kernels_of_a_chain_behind_changed_keys() -> None:
    """Also in a bucket without rows in the batch that moves the time."""
    chain = Chain([StreamAggregate(counting_bytes()), until_time_limit(10)])
    held = Buckets(plan_of(chain, partitions=4))
    assert held.run([Row(key(1), b"v", 5)]) == []
    found = held.run([Row(key(2), b"v", 100, offset=1)])
    assert [row.key for row in found] == [key(1)]


def test_state_of_other_buckets_is_refused() -> None:
    first = Buckets(plan_of(JOIN, buckets=1))
    first.run([Row(key(1), b"v", 1)])
    second = Buckets(plan_of(JOIN, buckets=2))
    second.states = {0: first.states[0], 1: first.states[0]}
    difference = "buckets is 1 in the state and 2 in the query; bring the earlier version back"
    with pytest.raises(TaskFailureError, match=difference):
        second.run([Row(key(1), b"v", 1)])


def test_state_of_suppression_without_a_limit_is_refused_with_one() -> None:
    held = Buckets(plan_of(until_time_limit(10)))
    held.run([Row(key(1), b"v", 5)])
    held.plan = plan_of(until_time_limit(10, 2))
    difference = "has_most_records is None in the state and True in the query"
    with pytest.raises(TaskFailureError, match=difference):
        held.run([Row(key(2), b"v", 6)])


def test_placed_columns_are_in_the_order_of_the_schema() -> None:
    from barnabas.pipeline.streams.kernels import bucket_rows, bucket_tasks

    placed = bucket_tasks.place(plan_of(until_time_limit(1)), batches([Row(key(1), b"v", 5)]))
    names = [*bucket_rows.COLUMNS, "bucket"]
    assert [batch.schema.names for batch in placed] == [names, names]


def test_headers_and_nulls_pass() -> None:
    row = Row(None, b"v", 5, headers=(("h", b"1"), ("n", None)))
    kernel = StreamTableJoin(lambda key, left, right: left, is_left=True)
    (found,) = Buckets(plan_of(kernel)).run([row])
    assert found == row._replace(stream_time_ms=5, sequence=1)


class KernelQueries:
    """Two queries on a stream and a table: a join, and sessions of the stream."""

    def __init__(self, engine: Any, bootstrap: str, names: dict[str, str], directory: Path) -> None:
        self.engine, self.bootstrap, self.names = engine, bootstrap, names
        self.directory = directory
        self.producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
        self.jobs: list[Any] = []
        self.found: dict[str, list[tuple[bytes, bytes | None]]] = defaultdict(list)
        self.readers = {name: reader(bootstrap, names[name]) for name in ("joined", "sessions")}

    def start(self, kernel_of_sessions: SessionWindowAggregate) -> None:
        from barnabas.pipeline.streams.kernels.bucketed_query import bucketed

        both = self.topic("stream", Side.LEFT).unionByName(self.topic("table", Side.RIGHT))
        self.write("joined", bucketed(both, JOIN, buckets=BUCKETS))
        found = bucketed(self.topic("stream", Side.LEFT), counted(kernel_of_sessions), buckets=4)
        text = "concat_ws('-', value, window_start_ms, window_end_ms)"
        self.write("sessions", found.selectExpr("key", f"{text} AS value", "timestamp_ms"))

    def topic(self, name: str, side: Side) -> Any:
        from pyspark.sql import functions

        rows = (
            self.engine.session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("kafka.fetch.max.wait.ms", "20")
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", self.names[name])
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .load()
        )
        columns = ("key", "value", "timestamp", "partition", "offset", "headers")
        return rows.select(*columns, functions.lit(int(side)).alias("side"))

    def write(self, name: str, frame: Any) -> None:
        from barnabas.pipeline.delivery.micro_batches import micro_batch_job
        from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan

        target = self.names[name]
        plan = JobPlan(target, 1, JobKind.COPY, self.bootstrap, target, target, target_topic=target)
        self.engine.session.conf.set("spark.sql.shuffle.partitions", "2")
        self.jobs.append(micro_batch_job.start(plan, frame, str(self.directory / name), "append"))

    def stop(self) -> None:
        for job in self.jobs:
            job.stop()
        self.jobs.clear()

    def close(self) -> None:
        self.stop()
        for consumer in self.readers.values():
            consumer.close()

    def send(self, name: str, *records: tuple[int, bytes | None, int]) -> None:
        for number, value, time_ms in records:
            self.producer.produce(self.names[name], value, key(number), timestamp=time_ms)
        assert self.producer.flush(60) == 0

    def values(self, name: str, count: int) -> list[tuple[bytes, bytes | None]]:
        """Wait for a number of results; return all, those of a key in their order."""

        def read() -> bool:
            for job in self.jobs:
                job.progress()
                assert job.failure() is None, f"{job.failure()}\n{job.failure().trace}"
            message = self.readers[name].poll(0.1)
            if message is not None and message.error() is None:
                self.found[name].append((message.key(), message.value()))
            return len(self.found[name]) >= count

        try:
            eventually(read)
        except AssertionError as error:
            raise AssertionError(f"{name} has {self.found[name]}, not {count} results") from error
        return sorted(self.found[name], key=itemgetter(0))


def reader(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"check-{topic}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    return consumer


def counted(kernel: SessionWindowAggregate) -> Kernel:
    """Return the kernel with its counts as text."""

    class Texts:
        def process(self, row: Row, context: Any) -> list[Row]:
            return [row._replace(value=None if row.value is None else b"%d" % row.value)]

    return Chain([kernel, Process(Texts(), "texts")])


@pytest.fixture
def queries(engine, bootstrap, topics, tmp_path: Path) -> Iterator[KernelQueries]:
    names = {
        name: topics.create(name, partitions=2)
        for name in ("stream", "table", "joined", "sessions")
    }
    found = KernelQueries(engine, bootstrap, names, tmp_path)
    yield found
    found.close()


def test_kernels_continue_from_their_state_after_a_restart(queries: KernelQueries) -> None:
    queries.send("table", (1, b"t1", 1_000), (2, b"t2", 1_000))
    queries.send("stream", (1, b"a", 2_000), (2, b"b", 2_000), (3, b"c", 2_000))
    queries.start(sessions())
    assert queries.values("joined", 2) == [(key(1), b"a/t1"), (key(2), b"b/t2")]
    queries.values("sessions", 3)
    queries.stop()
    queries.send("table", (1, b"t3", 3_000), (2, None, 3_000))
    queries.send("stream", (1, b"d", 4_000), (2, b"e", 4_000))
    queries.start(sessions())
    assert queries.values("joined", 3) == [(key(1), b"a/t1"), (key(1), b"d/t3"), (key(2), b"b/t2")]
    assert queries.values("sessions", 7) == [
        (key(1), b"1-2000-2000"),
        (key(1), b"2000-2000"),
        (key(1), b"2-2000-4000"),
        (key(2), b"1-2000-2000"),
        (key(2), b"2000-2000"),
        (key(2), b"2-2000-4000"),
        (key(3), b"1-2000-2000"),
    ]
