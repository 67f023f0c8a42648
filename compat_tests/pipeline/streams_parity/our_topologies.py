"""The topologies of StreamsPeer.java with our kernels, by the same names.

Kernels run as Spark runs them: rows of a micro-batch in stream order, in one or in several buckets
by key, with the stream time of each partition. A topology with several kernels takes a whole batch
through each of them before the next. Values are texts, as on Kafka's side.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.foreign_key_joins import (
    ForeignKeyLookup,
    ForeignKeyRespond,
    ForeignKeySubscribe,
)
from barnabas.pipeline.streams.kernels.kernel_chain import Chain
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel
from barnabas.pipeline.streams.kernels.kernel_rows import (
    UNKNOWN_MS,
    Row,
    Side,
    Timed,
    in_sequence,
    in_stream_order,
)
from barnabas.pipeline.streams.kernels.session_windows import SessionWindowAggregate
from barnabas.pipeline.streams.kernels.sliding_windows import SlidingWindowAggregate
from barnabas.pipeline.streams.kernels.state_codec import decode, encode
from barnabas.pipeline.streams.kernels.stream_aggregates import (
    LATE,
    Aggregation,
    StreamAggregate,
    counting,
)
from barnabas.pipeline.streams.kernels.stream_joins import JoinWindows, StreamJoin
from barnabas.pipeline.streams.kernels.stream_table_joins import GlobalTableJoin, StreamTableJoin
from barnabas.pipeline.streams.kernels.suppression import until_time_limit, until_window_closes
from barnabas.pipeline.streams.kernels.table_aggregates import TableAggregate
from barnabas.pipeline.streams.kernels.table_joins import JoinKind, TableJoin
from barnabas.pipeline.streams.kernels.table_kernels import (
    TableRegroup,
    TableSource,
)
from barnabas.pipeline.streams.kernels.time_windows import TimeWindowAggregate, TimeWindows
from barnabas.pipeline.streams.kernels.user_kernels import Process, ProcessContext, is_due

SIZE_MS, ADVANCE_MS, GRACE_MS, GAP_MS = 100, 40, 30, 50

Rows = list[Row]
Route = Callable[[Row], bytes | None]


class Buckets:
    """A kernel and the states of its buckets, which are stored after each batch."""

    def __init__(self, kernel: Kernel, route: Route, count: int) -> None:
        self._kernel = kernel
        self._route = route
        self._states = [BucketState() for _ in range(count)]
        self._reached: dict[tuple[int, int], int] = {}
        self.late = 0

    def step(self, rows: Iterable[Row]) -> Rows:
        """Return the outputs of a micro-batch."""
        timed = list(self._timed(rows))
        stamped = in_stream_order(timed, self._kernel.first, self._kernel.timed)
        found: Rows = []
        signature = self._kernel.signature
        for number, state in enumerate(self._states):
            mine = [row for row in stamped if row.side is Side.CLOCK or self._bucket(row) == number]
            if len(self._states) > 1:
                mine = in_stream_order([*mine, *_times(stamped)], self._kernel.first)
            found += in_sequence(self._kernel.step(mine, state))
            self.late += state.dropped.pop(LATE, 0)
            self._states[number] = decode(encode(state, signature), signature)
        return found

    def _timed(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows with the stream time that their partition had before the batch."""
        before = dict(self._reached)
        for row in sorted(rows, key=_place):
            if row.side is Side.CLOCK or row.stream_time_ms != UNKNOWN_MS:
                yield row
                continue
            lane = (row.side, row.partition)
            yield row._replace(before_ms=before.get(lane, UNKNOWN_MS))
            if self._kernel.timed.counts(row.key, row.value):
                now_ms = self._reached.get(lane, UNKNOWN_MS)
                self._reached[lane] = max(now_ms, row.timestamp_ms)

    def _bucket(self, row: Row) -> int:
        return sum(self._route(row) or b"") % len(self._states)


def _place(row: Row) -> tuple[int, int, int]:
    return row.side, row.partition, row.offset


def _times(stamped: Sequence[Row]) -> Rows:
    """Return a row for the stream time that each partition has at the end of a batch."""
    times: dict[int, int] = {}
    for row in (each for each in stamped if each.side is not Side.CLOCK):
        times[row.partition] = max(times.get(row.partition, -1), row.reached_ms)
    return [
        Row(None, None, time_ms, Side.TIME, partition, stream_time_ms=time_ms)
        for partition, time_ms in times.items()
    ]


def by_key(row: Row) -> bytes | None:
    """Route a row by its key."""
    return row.key


def by_partition(row: Row) -> bytes | None:
    """Route a row by its partition, as kernels need whose buckets must hold whole tasks."""
    return bytes([row.partition])


class Run:
    """One run of a topology: the buckets of its kernels."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._kernels: dict[str, Buckets] = {}

    def __call__(self, name: str, kernel: Kernel, rows: Rows, route: Route = by_key) -> Rows:
        """Return the outputs of a kernel for the rows of a batch."""
        if name not in self._kernels:
            self._kernels[name] = Buckets(kernel, route, self._buckets)
        return self._kernels[name].step(rows)


Flow = Callable[[Run, Rows], Rows]


class Relation(enum.Enum):
    """The comparison of outputs of a key and window with those of Kafka Streams."""

    EQUAL = "equal"
    UNORDERED = "the same outputs"
    """Rows of one key are looked up in several buckets, whose outputs have no order."""
    CONTAINS = "theirs among ours"
    """Kafka Streams has forgotten rows that ours still has, or emits them later."""


EXACT: Final = {1: Relation.EQUAL, 3: Relation.EQUAL}
"""By the number of buckets."""


@attrs.frozen
class Topology:
    """The flow of a batch of input through kernels, and how its output is compared."""

    flow: Flow
    sides: int = 1
    partitions: int = 2
    """Several where a key stays in its partition, one where Kafka Streams repartitions."""
    is_table: bool = False
    """True when the output is a table: only the newest value of each key counts."""
    first: Side = Side.LEFT
    """The side that comes first where times are equal."""
    timed: Timed = Timed.ALL
    relations: Mapping[int, Relation] = EXACT
    has_times: bool = True
    """False when the time of a result depends on the order of rows of equal time."""
    has_clock: bool = False
    """True when each batch ends with a step of the wall clock."""

    def run(self, batches: Iterable[Sequence[Row]], buckets: int) -> Rows:
        """Return the outputs of all batches."""
        run, found = Run(buckets), list[Row]()
        for batch in _due(batches) if self.has_clock else batches:
            found += self.flow(run, list(batch))
        return found


def _due(batches: Iterable[Sequence[Row]]) -> Iterator[Rows]:
    """Yield batches with the steps of the clock at which a processor is called, as an app has."""
    before_ms = 0
    for batch in batches:
        *rows, step = batch
        assert step.side is Side.CLOCK
        yield [*rows, step] if is_due(before_ms, step.timestamp_ms, SIZE_MS) else rows
        before_ms = step.timestamp_ms


def head(value: str) -> str:
    return value.partition(":")[0]


def reference(_: Any, value: str | None) -> bytes | None:
    """Return the key that a value refers to, None for an empty one."""
    return (head(value).encode() or None) if value is not None else None


def text(value: object) -> str:
    return "null" if value is None else str(value)


def pair(_: Any, left: str | None, right: str | None) -> str:
    return f"{text(left)}/{text(right)}"


def appended(_: Any, value: str | None, total: str | None) -> str:
    return f"{text(total)}+{text(value)}"[-40:]


APPENDING: Final = Aggregation(appended, str)
REDUCING: Final = Aggregation(appended)


def to_null(key: bytes, value: str, total: str | None) -> str | None:
    return None if value.startswith("a") else appended(key, value, total)


def less_one(_: Any, value: str, count: int) -> int:
    return count - 1


def length_added(_: Any, value: str, total: int) -> int:
    return total + len(value)


def length_removed(_: Any, value: str, total: int) -> int:
    return total - len(value)


def grouped(key: bytes | None, value: str) -> tuple[bytes | None, str]:
    return reference(key, value), value


def grouped_lengths(key: bytes | None, value: str) -> tuple[bytes | None, int]:
    return reference(key, value), len(value)


def added(_: Any, value: int, total: int) -> int:
    return total + value


def removed(_: Any, value: int, total: int) -> int:
    return total - value


def single(kernel: Kernel, **more: Any) -> Topology:
    """Return a topology of one kernel."""
    flow = partial(_single, kernel)
    return Topology(flow, first=kernel.first, timed=kernel.timed, **more)


def _single(kernel: Kernel, run: Run, rows: Rows) -> Rows:
    return run("kernel", kernel, rows)


def table(*kernels: Kernel, **more: Any) -> Topology:
    return single(Chain(kernels) if len(kernels) > 1 else kernels[0], is_table=True, **more)


def windowed(*kernels: Kernel, **more: Any) -> Topology:
    """Return a topology whose every update counts."""
    return single(Chain(kernels) if len(kernels) > 1 else kernels[0], **more)


def most_records(limit: int, *before: Kernel) -> Topology:
    """Return a topology of a suppression with a limit, whose buckets are partitions."""
    kernel = until_time_limit(GAP_MS, limit)
    # Changes of several buckets at one stream time have no order.
    relations = {1: Relation.EQUAL} if before else EXACT

    def flow(run: Run, rows: Rows) -> Rows:
        for number, each in enumerate(before):
            rows = run(f"before {number}", each, rows)
        return run("suppress", kernel, rows, by_partition)

    return Topology(flow, timed=(*before, kernel)[0].timed, relations=relations)


def global_table(*, is_left: bool) -> Topology:
    kernel = GlobalTableJoin(pair, reference, is_left)

    def looked_up(row: Row) -> bytes | None:
        return row.key if row.side is Side.RIGHT else reference(None, row.value)

    def flow(run: Run, rows: Rows) -> Rows:
        return run("join", kernel, rows, looked_up)

    relations = {1: Relation.EQUAL, 3: Relation.UNORDERED}
    return Topology(flow, sides=2, partitions=1, first=Side.RIGHT, relations=relations)


def foreign_key(*, is_left: bool) -> Topology:
    def flow(run: Run, rows: Rows) -> Rows:
        left = [row for row in rows if row.side is Side.LEFT]
        right = [row for row in rows if row.side is Side.RIGHT]
        wanted = run("subscribe", ForeignKeySubscribe(reference, is_left), left)
        answers = run("lookup", ForeignKeyLookup(), [*wanted, *right])
        return run("respond", ForeignKeyRespond(pair, is_left), answers)

    return Topology(flow, sides=2, partitions=1, is_table=True, has_times=False)


def rekeyed_count(run: Run, rows: Rows) -> Rows:
    heads = [
        row._replace(key=None if row.value is None else head(row.value).encode()) for row in rows
    ]
    return run("count", StreamAggregate(counting()), heads)


def cogrouped(run: Run, rows: Rows) -> Rows:
    marked = [
        row._replace(
            value=None if row.value is None else "lr"[row.side] + row.value, side=Side.LEFT
        )
        for row in in_stream_order(rows)
    ]
    numbered = [row._replace(offset=number) for number, row in enumerate(marked)]
    return run("aggregate", StreamAggregate(APPENDING), numbered)


def regrouped(regroup: TableRegroup, aggregate: TableAggregate) -> Topology:
    def flow(run: Run, rows: Rows) -> Rows:
        changes = run("regroup", Chain((TableSource(), regroup)), rows)
        return run("aggregate", aggregate, changes)

    return Topology(flow, partitions=1, is_table=True)


def joined_count(run: Run, rows: Rows) -> Rows:
    joined = run("join", StreamTableJoin(lambda _, value, found: head(found)), rows)
    return run(
        "count",
        StreamAggregate(counting()),
        [row._replace(key=row.value.encode()) for row in joined],
    )


def joined_table_count(run: Run, rows: Rows) -> Rows:
    joined = run("join", TableJoin(pair, JoinKind.INNER), rows)
    changes = run("regroup", TableRegroup(grouped), joined)
    return run("count", TableAggregate(counting(), less_one), changes)


class Dedupe:
    """Passes a row unless one of its key passed within the gap."""

    def process(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        if row.key is None:
            return
        seen = context.store("seen")
        before = seen.get(row.key)
        if before is None or abs(row.timestamp_ms - before) > GAP_MS:
            seen[row.key] = row.timestamp_ms
            yield row

    def punctuate(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        return ()


class Running:
    """Numbers the values of a key; a null begins again."""

    def process(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        if row.key is None:
            return
        totals = context.store("totals")
        if row.value is None:
            totals.pop(row.key, None)
            yield row
            return
        totals[row.key] = totals.get(row.key, 0) + 1
        yield row._replace(value=f"{row.value}#{totals[row.key]}")

    def punctuate(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        return ()


class Clock:
    """Counts rows, and emits the count at points of stream time."""

    def process(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        store = context.store("rows")
        store["count"] = store.get("count", 0) + 1
        return ()

    def punctuate(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        count = context.store("rows").get("count", 0)
        yield row._replace(key=b"clock", value=str(count), timestamp_ms=context.stream_time_ms)


class Silence:
    """Counts the rows of each key between two points of the wall clock."""

    def process(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        if row.key is not None:
            counts = context.store("counts")
            counts[row.key] = counts.get(row.key, 0) + 1
        return ()

    def punctuate(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        return ()

    def punctuate_wall_clock(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        counts = context.store("counts")
        found = [row._replace(key=key, value=str(count)) for key, count in counts.items()]
        counts.clear()
        return found


TUMBLING: Final = TimeWindows(SIZE_MS, SIZE_MS, GRACE_MS)
HOPPING: Final = TimeWindows(SIZE_MS, ADVANCE_MS, GRACE_MS)
SESSION_COUNT: Final = SessionWindowAggregate(GAP_MS, counting(), added, GRACE_MS)
JOIN_WINDOWS: Final = JoinWindows(GAP_MS, GAP_MS, GRACE_MS)


def stream_join(windows: JoinWindows, *outer: Side) -> Topology:
    # Kafka Streams emits rows without match late, after it has met a newer one that is open. A
    # bucket sees the time of the other side only by its own rows, so it keeps rows for longer, and
    # a row may have a match where Kafka Streams emits it without one.
    exact = {1: Relation.EQUAL, 3: Relation.CONTAINS}
    relations = {1: Relation.CONTAINS} if outer else exact
    return windowed(StreamJoin(pair, windows, frozenset(outer)), sides=2, relations=relations)


TOPOLOGIES: dict[str, Topology] = {
    "to-table": table(TableSource()),
    "stream-table-inner": single(StreamTableJoin(pair), sides=2),
    "stream-table-left": single(StreamTableJoin(pair, is_left=True), sides=2),
    "table-table-inner": table(TableJoin(pair, JoinKind.INNER), sides=2),
    "table-table-left": table(TableJoin(pair, JoinKind.LEFT), sides=2),
    "table-table-outer": table(TableJoin(pair, JoinKind.OUTER), sides=2),
    "foreign-key-inner": foreign_key(is_left=False),
    "foreign-key-left": foreign_key(is_left=True),
    "global-table-inner": global_table(is_left=False),
    "global-table-left": global_table(is_left=True),
    "count": single(StreamAggregate(counting())),
    "reduce": single(StreamAggregate(REDUCING)),
    "aggregate": single(StreamAggregate(APPENDING)),
    "aggregate-to-null": single(StreamAggregate(Aggregation(to_null, str))),
    "rekey-count": Topology(rekeyed_count, partitions=1),
    "cogroup": Topology(cogrouped, sides=2, partitions=1, relations={1: Relation.EQUAL}),
    "table-count": regrouped(TableRegroup(grouped), TableAggregate(counting(), less_one)),
    "table-aggregate": regrouped(
        TableRegroup(grouped), TableAggregate(Aggregation(length_added, int), length_removed)
    ),
    "table-reduce": regrouped(
        TableRegroup(grouped_lengths), TableAggregate(Aggregation(added), removed)
    ),
    "tumbling-count": windowed(TimeWindowAggregate(TUMBLING, counting())),
    "tumbling-reduce": windowed(TimeWindowAggregate(TUMBLING, REDUCING)),
    "hopping-count": windowed(TimeWindowAggregate(HOPPING, counting())),
    "hopping-aggregate": windowed(TimeWindowAggregate(HOPPING, APPENDING)),
    "sliding-count": windowed(SlidingWindowAggregate(SIZE_MS, counting(), GRACE_MS)),
    "sliding-aggregate": windowed(SlidingWindowAggregate(SIZE_MS, APPENDING, GRACE_MS)),
    "session-count": windowed(SESSION_COUNT),
    "session-aggregate": windowed(
        SessionWindowAggregate(
            GAP_MS, APPENDING, lambda _, first, second: f"{first}&{second}", GRACE_MS
        )
    ),
    "tumbling-final": windowed(
        TimeWindowAggregate(TUMBLING, counting()), until_window_closes(GRACE_MS)
    ),
    "hopping-final": windowed(
        TimeWindowAggregate(HOPPING, counting()), until_window_closes(GRACE_MS)
    ),
    "session-final": windowed(SESSION_COUNT, until_window_closes(GAP_MS + GRACE_MS)),
    # Kafka Streams loses windows that its store has expired when they close.
    "tumbling-emit-on-close": windowed(
        TimeWindowAggregate(TUMBLING, counting()),
        until_window_closes(GRACE_MS),
        relations=dict.fromkeys(EXACT, Relation.CONTAINS),
    ),
    # What is due by the time of another bucket is sent at the end of a batch.
    "time-limit": windowed(
        StreamAggregate(counting()), until_time_limit(GAP_MS), relations={1: Relation.EQUAL}
    ),
    "table-time-limit": windowed(until_time_limit(GAP_MS), relations={1: Relation.EQUAL}),
    "table-most-records": most_records(2),
    "count-most-records": most_records(2, StreamAggregate(counting())),
    "tumbling-most-records": most_records(1, TimeWindowAggregate(TUMBLING, counting())),
    "stream-stream-inner": stream_join(JOIN_WINDOWS),
    "stream-stream-left": stream_join(JOIN_WINDOWS, Side.LEFT),
    "stream-stream-outer": stream_join(JOIN_WINDOWS, Side.LEFT, Side.RIGHT),
    "stream-stream-after": stream_join(JoinWindows(0, GAP_MS, GRACE_MS)),
    "dedupe": windowed(Process(Dedupe(), "dedupe")),
    "running-total": windowed(Process(Running(), "running")),
    "punctuation": windowed(
        Process(Clock(), "clock", every_ms=SIZE_MS), relations={1: Relation.EQUAL}
    ),
    "wall-clock": attrs.evolve(windowed(Process(Silence(), "silence")), has_clock=True),
    "join-then-count": Topology(
        joined_count, sides=2, partitions=1, first=Side.RIGHT, has_times=False
    ),
    "tables-then-count": Topology(joined_table_count, sides=2, partitions=1, is_table=True),
}
