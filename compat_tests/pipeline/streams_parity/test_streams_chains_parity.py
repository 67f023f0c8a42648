"""Chains of operators with state, on Spark by the test driver, beside those of Kafka Streams."""

from collections import Counter
from typing import Any

import pytest

from barnabas import streams as ks
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from compat_tests import spark as setup
from compat_tests.pipeline.streams_parity.streams_peer import Input, Output, StreamsPeer
from compat_tests.pipeline.streams_parity.test_streams_operators import (
    HEAD,
    REFERENCE,
    TEXT,
    TOPICS,
    made_cases,
    running,
)

pytestmark = [setup.needed, pytest.mark.timeout(600)]

TABLES = (
    *("reduce-then-count", "reduce-then-count-by-key", "count-then-table-count"),
    *("final-then-count", "windows-then-table-count", "total-then-count"),
    *("tables-then-count", "three-counts", "join-of-counts"),
)
STREAMS = ("join-behind-count", "join-behind-join", "merge-of-counts")
NATIVE = ("count-then-table-count", "windows-then-table-count", "join-of-counts")
"""Behind Spark's aggregates, which write the last change of a batch: times may differ."""
TWO_TOPICS = ("tables-then-count", "join-of-counts", *STREAMS)
ONE_TOPIC = tuple(name for name in TABLES if name not in TWO_TOPICS)
WINDOW = ks.tumbling("100 milliseconds", grace="30 milliseconds")
NUMBER = "cast(value AS STRING)"
PAIR = "coalesce(left, 'null') || '/' || coalesce(right, 'null')"


def describe(app: ks.App) -> None:
    left, right = (app.topic(name, key=ks.String(), value=ks.String()) for name in TOPICS)
    lefts, rights = (app.table(name, key=ks.String(), value=ks.String()) for name in TOPICS)
    changes = left.group_by_key().reduce(lambda total, value: f"{total}+{value}"[-40:]).to_stream()
    by_head = changes.group_by(HEAD).count()
    app.write(by_head.map_values(NUMBER), "reduce-then-count")
    app.write(changes.group_by_key().count().map_values(NUMBER), "reduce-then-count-by-key")
    counts = left.group_by_key().count().map_values(NUMBER)
    app.write(counts.group_by("value").count().map_values(NUMBER), "count-then-table-count")
    valued = left.filter("value IS NOT NULL")  # Kafka Streams counts the others in windows
    closed = valued.window(WINDOW).count().final().to_stream()
    app.write(closed.group_by("key").count().map_values(NUMBER), "final-then-count")
    windows = valued.window(WINDOW).count()
    app.write(windows.group_by(NUMBER).count().map_values(NUMBER), "windows-then-table-count")
    totals = left.process(running(), state="totals")
    app.write(totals.group_by(HEAD).count().map_values(NUMBER), "total-then-count")
    pairs = lefts.join(rights, value=PAIR)
    app.write(pairs.group_by(REFERENCE).count().map_values(NUMBER), "tables-then-count")
    longest = changes.group_by(HEAD).reduce(lambda total, value: f"{total}+{value}"[-40:])
    numbers = longest.to_stream().group_by("substring(key, 1, 1)").count()
    app.write(numbers.map_values(NUMBER), "three-counts")
    others = right.group_by_key().count().map_values(NUMBER)
    app.write(counts.join(others, value=PAIR), "join-of-counts")
    app.write(right.join_table(counts, value=PAIR), "join-behind-count")
    app.write(
        right.left_join_table(lefts, value=PAIR).join_table(counts, value=PAIR),
        "join-behind-join",
    )
    app.write(changes.merge(right), "merge-of-counts")


def batches() -> list[list[Row]]:
    """Return the rows of one topic each: a join takes those of the topics in this order."""
    first, second = made_cases()
    return [
        [row for row in first if row.side is Side.LEFT],
        [row for row in (*first, *second) if row.side is Side.RIGHT],
        [row for row in second if row.side is Side.LEFT],
    ]


def text(key: bytes | None) -> str | None:
    return None if key is None else key.decode()


def driven(engine: Any, found: list[list[Row]]) -> dict[str, list[Output]]:
    """Return the outputs of all chains."""
    with ks.TestDriver(describe, session=engine.session) as driver:
        for rows in found:
            for row in rows:
                driver.pipe(TOPICS[row.side], (text(row.key), row.value, row.timestamp_ms))
            driver.process()
        return {
            name: [
                Output(record.key, record.window, record.value, record.timestamp)
                for record in driver.read(name, **TEXT)
            ]
            for name in (*TABLES, *STREAMS)
        }


def newest(name: str, outputs: list[Output]) -> dict[Any, tuple[str | None, int]]:
    """Return the newest value of each key, without groups that have become empty."""
    found = {each.key: (each.value, each.timestamp * (name not in NATIVE)) for each in outputs}
    return {key: fact for key, fact in found.items() if fact[0] not in (None, "0")}


def test_chains_make_of_records_what_kafka_streams_makes(engine, peer: StreamsPeer) -> None:
    found = batches()
    ours = driven(engine, found)
    inputs = [
        Input(TOPICS[row.side], text(row.key), row.value, row.timestamp_ms)
        for rows in found
        for row in rows
    ]

    def theirs(name: str) -> list[Output]:
        topics = set(TOPICS[:1] if name in ONE_TOPIC else TOPICS)
        (outputs,) = peer.run(name, [[each for each in inputs if each.topic in topics]])
        return [each for step in outputs for each in step]

    expected = {name: theirs(name) for name in (*STREAMS, *TABLES)}
    assert all(expected.values())
    for name in STREAMS:
        assert Counter(ours[name]) == Counter(expected[name]), name
    assert {name: newest(name, ours[name]) for name in TABLES} == {
        name: newest(name, expected[name]) for name in TABLES
    }
