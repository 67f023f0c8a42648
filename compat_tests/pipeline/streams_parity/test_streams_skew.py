"""Windows over partitions that are apart in time: ours on Spark, a reference, Kafka Streams."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest

from barnabas import streams as ks
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side, in_stream_order
from compat_tests import spark as setup
from compat_tests.pipeline.streams_parity.skewed_cases import counted, skewed_cases
from compat_tests.pipeline.streams_parity.stream_cases import Case
from compat_tests.pipeline.streams_parity.streams_peer import Input, StreamsPeer

pytestmark = [
    setup.needed,
    pytest.mark.timeout(900),
]

SEED = 21
CASES = 200
SIZE_MS, ADVANCE_MS, GRACE_MS = 100, 40, 30
TUMBLING = ks.tumbling("100 milliseconds", grace="30 milliseconds")
HOPPING = ks.hopping("100 milliseconds", "40 milliseconds", grace="30 milliseconds")
HOUR_MS = 3_600_000
TEXT = {"key": ks.String(), "value": ks.String()}


@pytest.fixture(scope="module")
def found() -> list[Case]:
    return [case for _, case in skewed_cases(SEED, CASES, sides=1)]


def piped(driver: ks.TestDriver, cases: Sequence[Case]) -> None:
    """Run all cases at once: each has two partitions, and keys with its number."""
    for batch in zip(*(case.batches for case in cases), strict=True):
        for number, rows in enumerate(batch):
            for row in rows:
                key = None if row.key is None else f"{row.key.decode()}{number}"
                record = (key, row.value, row.timestamp_ms)
                topic = "right" if row.side else "left"
                driver.pipe(topic, record, partition=2 * number + row.partition)
        driver.process()


def numbered(cases: Sequence[Case], windows: Any) -> Counter[tuple[str, int]]:
    """Return what the reference counts in all cases."""
    total: Counter[tuple[str, int]] = Counter()
    for number, case in enumerate(cases):
        counts, _ = counted(
            case,
            size_ms=windows.size_ms,
            advance_ms=windows.advance_ms,
            grace_ms=windows.grace_ms,
        )
        total.update({(f"{key}{number}", start): count for (key, start), count in counts.items()})
    return total


def table(driver: ks.TestDriver, topic: str, windows: Any) -> Counter[tuple[str, int]]:
    rows = driver.table(topic, key=ks.String(), value=ks.Long(), windows=windows)
    return Counter({(key, start): count for (key, start, _), count in rows.items()})


def describe(app: ks.App) -> None:
    left = app.topic("left", key=ks.String(), value=ks.String())
    app.write(left.window(TUMBLING).count(), "tumbling")
    app.write(left.window(HOPPING).count(), "hopping")
    sums = left.map_values("1L").window(TUMBLING).sum("value")
    app.write(sums, "sums")
    numbers = left.window(TUMBLING).aggregate(n="count(*)", most="max(value)")
    app.write(numbers.map_values("value.n"), "aggregates")


def test_windows_count_what_is_not_late_for_its_own_partition(engine, found: list[Case]) -> None:
    with ks.TestDriver(describe, session=engine.session) as driver:
        piped(driver, found)
        for topic in ("tumbling", "sums", "aggregates"):
            assert table(driver, topic, TUMBLING) == numbered(found, TUMBLING), topic
        assert table(driver, "hopping", HOPPING) == numbered(found, HOPPING)


def test_a_partition_that_is_hours_behind_loses_nothing(engine) -> None:
    windows = ks.tumbling("1 hour", grace="5 minutes")

    def hours(app: ks.App) -> None:
        left = app.topic("left", key=ks.String(), value=ks.String())
        app.write(left.group_by_key().window(windows).count(), "tumbling")

    with ks.TestDriver(hours, session=engine.session) as driver:
        for hour in range(6):
            for each in range(1_000):
                at_ms = hour * HOUR_MS + each * HOUR_MS // 1_000
                driver.pipe("left", ("a", "x", at_ms), partition=0)
                driver.pipe("left", ("b", "x", at_ms + 6 * HOUR_MS), partition=1)
            driver.process()
        counts = table(driver, "tumbling", windows)
    assert sum(count for (key, _), count in counts.items() if key == "a") == 6_000
    assert sum(count for (key, _), count in counts.items() if key == "b") == 6_000


def describe_kernels(app: ks.App) -> None:
    left = app.topic("left", key=ks.String(), value=ks.String())
    right = app.topic("right", key=ks.String(), value=ks.String())
    text = "cast(value AS STRING)"
    app.write(left.window(TUMBLING).count().final().map_values(text), "tumbling-final")
    app.write(left.window(HOPPING).count().final().map_values(text), "hopping-final")
    app.write(left.window(SLIDING).count().map_values(text), "sliding-count")
    app.write(left.window(SESSIONS).count().final().map_values(text), "session-final")
    pair = "coalesce(left, 'null') || '/' || coalesce(right, 'null')"
    near = {"within": "50 milliseconds", "grace": "30 milliseconds", "value": pair}
    app.write(left.join(right, **near), INNER)
    app.write(left.outer_join(right, **near), OUTER)
    app.write(left.dedupe("50 milliseconds"), "dedupe")
    app.write(left.process(numbering(), state="totals"), "running-total")


def numbering() -> ks.Processor:
    """Return a processor that numbers the values of a key."""

    class Numbering:  # Spark's workers cannot import the test's module
        def process(self, record: ks.Record, context: ks.ProcessContext) -> list[ks.Record]:
            totals = context.store("totals")
            if record.key is None:
                return []
            number = totals[record.key] = totals.get(record.key, 0) + 1
            return [ks.Record(record.key, f"{record.value}#{number}")]

    return Numbering()


SLIDING = ks.sliding("100 milliseconds", grace="30 milliseconds")
SESSIONS = ks.session("50 milliseconds", grace="30 milliseconds")
WINDOWS = {
    "tumbling-final": TUMBLING,
    "hopping-final": HOPPING,
    "sliding-count": SLIDING,
    "session-final": SESSIONS,
}
INNER, OUTER = "stream-stream-inner", "stream-stream-outer"
END_MS = 1_000_000
"""The time of the last records of a case, after all others: it closes all windows."""


@attrs.frozen
class Result:
    """An output of the case with a number."""

    case: int
    key: str
    window: tuple[int, int] | None
    value: str | None
    timestamp: int


def test_kernels_emit_what_kafka_streams_emits(engine, peer: StreamsPeer) -> None:
    cases = [ended(valued(case)) for _, case in skewed_cases(SEED, 40, sides=2)]
    ours: dict[str, list[Result]] = {}
    with ks.TestDriver(describe_kernels, session=engine.session) as driver:
        piped(driver, cases)
        for name in (*WINDOWS, INNER, OUTER, "dedupe", "running-total"):
            records = driver.read(name, windows=WINDOWS.get(name), **TEXT)
            ours[name] = [
                Result(int(each.key[1:]), each.key[0], each.window, each.value, each.timestamp)
                for each in records
                if each.key is not None  # all cases share one record without a key
            ]
    for name in WINDOWS:
        assert newest(ours[name]) == newest(theirs(peer, name, cases)), name
    assert Counter(ours[INNER]) >= Counter(theirs(peer, INNER, cases))
    check_outer(ours[OUTER], theirs(peer, OUTER, cases))
    assert Counter(ours["running-total"]) == Counter(theirs(peer, "running-total", cases))
    assert Counter(ours["dedupe"]) == Counter(unique(cases, 50))


def check_outer(ours: Sequence[Result], theirs: Sequence[Result]) -> None:
    """Check the outputs of an outer join; those of rows without key are not compared.

    A bucket keeps rows for longer than Kafka Streams, so a row that comes alone there may have a
    partner here. Kafka Streams sends rows that are alone later, and those that have got a partner
    by then not at all.
    """
    our_pairs, our_rows = paired(ours)
    their_pairs, their_rows = paired([each for each in theirs if each.key])
    assert not their_pairs - our_pairs
    assert not their_rows - our_rows - in_pairs(our_pairs)


def in_pairs(pairs: set[tuple[int, str, str]]) -> set[tuple[int, str]]:
    return {(case, value) for case, *values in pairs for value in values}


def paired(results: Sequence[Result]) -> tuple[set[tuple[int, str, str]], set[tuple[int, str]]]:
    """Return the pairs, and the rows that came alone."""
    pairs: set[tuple[int, str, str]] = set()
    alone: set[tuple[int, str]] = set()
    for each in results:
        left, right = (each.value or "").split("/")
        if "null" in (left, right):
            alone.add((each.case, left if right == "null" else right))
        else:
            pairs.add((each.case, left, right))
    assert len(pairs) + len(alone) == len(results)
    return pairs, alone


def valued(case: Case) -> Case:
    """Return a case whose records have values that differ.

    Records that have no value count for the time of Kafka Streams' windows.
    """
    rows = [
        [row._replace(value=f"{row.value}.{row.partition}.{row.offset}") for row in batch]
        for batch in case.batches
    ]
    return attrs.evolve(case, batches=rows)


def ended(case: Case) -> Case:
    """Return a case with one more batch, which closes the windows of both partitions."""
    last = [
        Row(
            b"ab"[partition : partition + 1],
            f"end{side}.{partition}",
            END_MS,
            side,
            partition,
            1_000 + side,
        )
        for partition in range(2)
        for side in (Side.LEFT, Side.RIGHT)
    ]
    return attrs.evolve(case, batches=[*case.batches, last])


def newest(results: Sequence[Result]) -> dict[Any, Any]:
    return {(r.case, r.key, r.window): (r.value, r.timestamp) for r in results}


def theirs(peer: StreamsPeer, name: str, cases: Sequence[Case]) -> list[Result]:
    """Return the outputs of Kafka Streams, in which each partition of a case is a task."""
    taken = [
        (number, partition, [row for batch in case.batches for row in order(batch, name)])
        for number, case in enumerate(cases)
        for partition in range(2)
    ]
    inputs = [
        [
            Input("right" if row.side else "left", key_of(row), row.value, row.timestamp_ms)
            for row in rows
            if row.partition == partition
        ]
        for _, partition, rows in taken
    ]
    return [
        Result(number, out.key or "", out.window, out.value, out.timestamp)
        for (number, _, _), steps in zip(taken, peer.run(name, inputs), strict=True)
        for step in steps
        for out in step
    ]


def order(batch: Sequence[Row], name: str) -> Sequence[Row]:
    rows = batch if name in (INNER, OUTER) else [row for row in batch if row.side is Side.LEFT]
    return in_stream_order(rows)


def key_of(row: Row) -> str | None:
    return None if row.key is None else row.key.decode()


def unique(cases: Sequence[Case], within_ms: int) -> Iterator[Result]:
    """Yield the records that a plain loop over each case passes, by the time of partitions."""
    for number, case in enumerate(cases):
        reached: dict[int, int] = {}
        passed: list[Row] = []
        for row in (row for batch in case.batches for row in order(batch, "dedupe")):
            now_ms = reached[row.partition] = max(reached.get(row.partition, 0), row.timestamp_ms)
            is_near = any(
                each.key == row.key and abs(each.timestamp_ms - row.timestamp_ms) <= within_ms
                for each in passed
            )
            if row.key is None or is_near or row.timestamp_ms < now_ms - within_ms:
                continue
            passed.append(row)
            yield Result(number, row.key.decode(), None, row.value, row.timestamp_ms)
