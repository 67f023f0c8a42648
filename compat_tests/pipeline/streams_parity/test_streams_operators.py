"""Operators of `barnabas.streams` on Spark, by the test driver, beside those of Kafka Streams."""

from collections import Counter
from typing import Any

import pytest

from barnabas import streams as ks
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side, in_stream_order
from compat_tests import spark as setup
from compat_tests.pipeline.streams_parity.stream_cases import case
from compat_tests.pipeline.streams_parity.streams_peer import Input, Output, StreamsPeer

COMPILES = True
pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]

SEEDS = (11, 23)
TOPICS = ("left", "right")
ONE_TOPIC = (
    *("stream-filter", "stream-map-values", "stream-flat-map", "branch"),
    "running-total",
)
STREAMS = (*ONE_TOPIC, "merge", "stream-table-inner", "stream-table-left")
ONE_TABLE = (
    *("count", "reduce", "table-filter", "table-map-values", "sliding-count"),
    *("table-count", "table-reduce", "time-limit"),
    *("table-most-records", "count-most-records"),
)
TABLES = (*ONE_TABLE, "table-table-outer", "foreign-key-left")
# The time of a result depends on the order of rows with one time.
WITHOUT_TIMES = ("foreign-key-left",)
SLIDING = ks.sliding("100 milliseconds", grace="30 milliseconds")
PAUSE_MS = 10_000
"""The time between two cases, so that the second one is not late."""
HEAD = "substring_index(value, ':', 1)"
REFERENCE = f"nullif({HEAD}, '')"
GAP_MS = 50
FLUSH = Row(b"end", "end", PAUSE_MS * (len(SEEDS) + 1), offset=1_000_000)
"""A last record, whose time ends what suppress holds back."""
TEXT = {"key": ks.String(), "value": ks.String()}


def describe(app: ks.App) -> None:
    left, right = (app.topic(name, key=ks.String(), value=ks.String()) for name in TOPICS)
    app.write(left.filter("NOT startswith(value, 'a')"), "stream-filter")
    app.write(left.map_values("upper(value)"), "stream-map-values")
    records = f"array(struct({HEAD} AS key, key AS value), struct(key, value))"
    app.write(left.filter("value IS NOT NULL").flat_map(records), "stream-flat-map")
    branches = left.branch("value IS NULL", "startswith(value, 'a')", "true")
    texts = ("coalesce(value, 'null')", "'a ' || value", "'rest ' || value")
    for number, (branch, text) in enumerate(zip(branches, texts, strict=True)):
        mapped = branch.map(key="key", value=text)
        app.write(mapped, "branch", name=f"branch-{number}")
    app.write(left.merge(right), "merge")
    app.write(left.group_by_key().count().map_values("cast(value AS STRING)"), "count")
    table = app.table("left", key=ks.String(), value=ks.String())
    app.write(table.filter("NOT startswith(value, 'a')"), "table-filter")
    app.write(table.map_values("upper(value)"), "table-map-values")
    describe_kernels(app, left, table)


def describe_kernels(app: ks.App, left: ks.Stream, table: ks.Table) -> None:
    other = app.table("right", key=ks.String(), value=ks.String())
    pair = "coalesce(left, 'null') || '/' || coalesce(right, 'null')"
    app.write(left.join_table(other, value=pair), "stream-table-inner")
    app.write(left.left_join_table(other, value=pair), "stream-table-left")
    app.write(table.outer_join(other, value=pair), "table-table-outer")
    app.write(left.group_by_key().reduce(lambda total, value: f"{total}+{value}"[-40:]), "reduce")
    describe_tables(app, left, table, other, pair)
    counts = left.window(SLIDING).count()
    app.write(counts.map_values("cast(value AS STRING)"), "sliding-count")


def describe_tables(
    app: ks.App, left: ks.Stream, table: ks.Table, other: ks.Table, pair: str
) -> None:
    app.write(table.left_join(other, on=REFERENCE, value=pair), "foreign-key-left")
    text = "cast(value AS STRING)"
    app.write(table.group_by(REFERENCE).count().map_values(text), "table-count")
    numbers = table.map_values("struct(value AS text, length(value) AS length)")
    sums = numbers.group_by("nullif(substring_index(value.text, ':', 1), '')").sum("length")
    app.write(sums.map_values(text), "table-reduce")
    limit = f"{GAP_MS} milliseconds"
    limited = left.group_by_key().count().suppress(limit)
    app.write(limited.map_values(text), "time-limit")
    app.write(table.suppress(limit, max_records=2), "table-most-records")
    held = left.group_by_key().count().suppress(limit, max_records=2)
    app.write(held.map_values(text), "count-most-records")
    app.write(left.process(running(), state="totals"), "running-total")


def running() -> ks.Processor:
    """Return a processor that numbers the values of a key; a null begins again."""

    class Running:  # Spark's workers cannot import the test's module
        def process(self, record: ks.Record, context: ks.ProcessContext) -> list[ks.Record]:
            totals = context.store("totals")
            if record.key is None:
                return []
            if record.value is None:
                totals.pop(record.key, None)
                return [record]
            totals[record.key] = totals.get(record.key, 0) + 1
            return [ks.Record(record.key, f"{record.value}#{totals[record.key]}")]

    return Running()


def made_cases() -> list[list[Row]]:
    """Return the rows of each case, in the order of their arrival."""
    found = [
        [
            row._replace(timestamp_ms=row.timestamp_ms + number * PAUSE_MS)
            for batch in case(seed, sides=2, partitions=1).batches
            for row in batch
        ]
        for number, seed in enumerate(SEEDS)
    ]
    return [*found[:-1], [*found[-1], FLUSH]]


def taken(cases: list[list[Row]], first: Side, topics: tuple[str, ...] = TOPICS) -> list[Input]:
    """Return the records in the order in which Kafka Streams takes them."""
    found = [
        Input(
            TOPICS[row.side],
            None if row.key is None else row.key.decode(),
            row.value,
            row.timestamp_ms,
        )
        for rows in cases
        for row in in_stream_order(rows, first)
    ]
    return [each for each in found if each.topic in topics]


def driven(engine: Any, cases: list[list[Row]]) -> dict[str, list[Output]]:
    """Return the outputs of all topologies; a case is a micro-batch."""
    found: dict[str, list[Output]] = {name: [] for name in (*STREAMS, *TABLES)}
    with ks.TestDriver(describe, session=engine.session) as driver:
        for each in cases:
            for row in each:
                key = None if row.key is None else row.key.decode()
                driver.pipe(TOPICS[row.side], (key, row.value, row.timestamp_ms))
            driver.process()
        for name in found:
            windows = SLIDING if name == "sliding-count" else None
            found[name] = [
                Output(record.key, record.window, record.value, record.timestamp)
                for record in driver.read(name, windows=windows, **TEXT)
            ]
    return found


def newest(name: str, outputs: list[Output]) -> dict[Any, tuple[str | None, int]]:
    has_time = name not in WITHOUT_TIMES
    found = {each[:2]: (each.value, each.timestamp if has_time else 0) for each in outputs}
    return {place: fact for place, fact in found.items() if fact[0] is not None}


def test_operators_make_of_records_what_kafka_streams_makes(engine, peer: StreamsPeer) -> None:
    cases = made_cases()
    ours = driven(engine, cases)

    def theirs(name: str) -> list[Output]:
        topics = TOPICS[:1] if name in (*ONE_TOPIC, *ONE_TABLE) else TOPICS
        first = Side.RIGHT if name.startswith("stream-table") else Side.LEFT
        (outputs,) = peer.run(name, [taken(cases, first, topics)])
        return [each for step in outputs for each in step]

    for name in STREAMS:
        assert Counter(ours[name]) == Counter(theirs(name)), name
    for name in TABLES:
        assert newest(name, ours[name]) == newest(name, theirs(name)), name
