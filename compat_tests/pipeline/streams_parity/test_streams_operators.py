"""Operators of `barnabas.streams` on Spark, by the test driver, beside those of Kafka Streams."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import streams as ks
from barnabas.pipeline.streams.kernels.kernel_rows import Row, in_stream_order
from compat_tests import jars
from compat_tests import spark as setup
from compat_tests.pipeline.streams_parity.stream_cases import Case, case
from compat_tests.pipeline.streams_parity.streams_peer import Input, Output, StreamsPeer

pytestmark = [
    pytest.mark.skipif(setup.missing() is not None, reason=setup.missing() or ""),
    pytest.mark.timeout(300),
]

SEEDS = (11, 23)
TOPICS = ("left", "right")
STREAMS = ("stream-filter", "stream-map-values", "stream-flat-map", "branch", "merge")
TABLES = ("count", "table-filter", "table-map-values")
HEAD = "substring_index(value, ':', 1)"
TEXT = {"key": ks.String(), "value": ks.String()}


@pytest.fixture(scope="module")
def peer() -> Iterator[StreamsPeer]:
    if reason := jars.missing():
        pytest.skip(reason)
    with StreamsPeer() as found:
        yield found


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


def rows_of(found: Case) -> list[Row]:
    return [row for batch in found.batches for row in batch]


def driven(engine: Any, cases: list[Case]) -> dict[str, list[Output]]:
    """Return the outputs of all topologies; a case is a micro-batch."""
    found: dict[str, list[Output]] = {name: [] for name in (*STREAMS, *TABLES)}
    with ks.TestDriver(describe, session=engine.session) as driver:
        for each in cases:
            for row in sorted(rows_of(each), key=lambda row: (row.side, row.offset)):
                key = None if row.key is None else row.key.decode()
                driver.pipe(TOPICS[row.side], (key, row.value, row.timestamp_ms))
            driver.process()
        for name in found:
            found[name] = [
                Output(record.key, None, record.value, record.timestamp)
                for record in driver.read(name, **TEXT)
            ]
    return found


def newest(outputs: list[Output]) -> dict[str | None, tuple[str | None, int]]:
    found = {output.key: (output.value, output.timestamp) for output in outputs}
    return {key: fact for key, fact in found.items() if fact[0] is not None}


def test_operators_make_of_records_what_kafka_streams_makes(engine, peer: StreamsPeer) -> None:
    cases = [case(seed, sides=2, partitions=1) for seed in SEEDS]
    inputs = [
        Input(
            TOPICS[row.side],
            None if row.key is None else row.key.decode(),
            row.value,
            row.timestamp_ms,
        )
        for each in cases
        for row in in_stream_order(rows_of(each))
    ]
    ours = driven(engine, cases)
    for name in STREAMS:
        taken = inputs if name == "merge" else [each for each in inputs if each.topic == "left"]
        (outputs,) = peer.run(name, [taken])
        theirs = [each for step in outputs for each in step]
        assert Counter(ours[name]) == Counter(theirs), name
        if name in ("stream-filter", "stream-map-values"):
            assert ours[name] == theirs, name
    for name in TABLES:
        (outputs,) = peer.run(name, [[each for each in inputs if each.topic == "left"]])
        assert newest(ours[name]) == newest([each for step in outputs for each in step]), name
