"""Windows over partitions that are apart in time: ours on Spark, a reference, Kafka Streams."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest

from barnabas import streams as ks
from barnabas.pipeline.streams.kernels.kernel_rows import Row
from compat_tests import jars
from compat_tests import spark as setup
from compat_tests.pipeline.streams_parity.skewed_cases import counted, skewed_cases
from compat_tests.pipeline.streams_parity.stream_cases import Case
from compat_tests.pipeline.streams_parity.streams_peer import StreamsPeer

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
def peer() -> Iterator[StreamsPeer]:
    if reason := jars.missing():
        pytest.skip(reason)
    with StreamsPeer() as found:
        yield found


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
                driver.pipe("left", record, partition=2 * number + row.partition)
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
