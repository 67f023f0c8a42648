"""The rate of a quota against Apache Kafka 4.3.0's, and by itself.

`quota-rates-4.3.0.json` has what Kafka's `Sensor` with a `Rate` and its `QuotaUtils.throttleTime`
computed for random values: each step is the time in ms, the value, and the throttle time in ms.
Negative values take back the value before them.
"""

import json
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.quota_rate import THROTTLE_MS_MAX, QuotaRate

RUNS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data" / "quota-rates-4.3.0.json").read_text()
)


def run_of(steps: list[list[int]], samples: int, window_ms: int, limit: int) -> list[int]:
    rate = QuotaRate(samples, window_ms, steps[0][0])
    throttled: list[int] = []
    for now_ms, value, _ in steps:
        rate.record(value, now_ms)
        # Kafka measures after it has counted a value, not after it has taken one back.
        throttled.append(rate.throttle_ms(limit, now_ms) if value >= 0 else 0)
    return throttled


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_throttle_times_are_those_of_kafka(number: int) -> None:
    run = RUNS[number]
    expected = [step[2] for step in run["steps"]]
    assert run_of(run["steps"], run["samples"], run["window_ms"], run["limit"]) == expected


def test_the_recorded_runs_throttle() -> None:
    assert sum(step[2] > 0 for run in RUNS for step in run["steps"]) > 100


def test_burst_of_the_windows_before_is_free_and_one_byte_more_is_not() -> None:
    rate = QuotaRate(11, 1000, 0)
    rate.record(10_000, 0)
    assert rate.throttle_ms(1000, 0) == 0
    rate.record(1, 0)
    assert rate.throttle_ms(1000, 0) == 1


def test_value_counts_until_its_windows_are_over() -> None:
    rate = QuotaRate(11, 1000, 0)
    rate.record(50_000, 0)
    assert rate.throttle_ms(1000, 10_999) == 50_000 - 10_999
    assert rate.throttle_ms(1000, 11_000) == 0


def test_values_of_one_window_are_one_sample() -> None:
    rate = QuotaRate(2, 1000, 0)
    rate.record(1000, 0)
    rate.record(1000, 999)
    assert rate.per_second(1999) == pytest.approx(2000 / 1.999)
    # The sample counts for two windows from its last value on.
    assert rate.per_second(2998) == pytest.approx(2000 / 2.998)
    assert rate.per_second(2999) == 0


def test_value_that_is_taken_back_does_not_count() -> None:
    rate = QuotaRate(11, 1000, 0)
    rate.record(5000, 0)
    rate.record(70_000, 100)
    rate.record(-70_000, 100)
    assert rate.throttle_ms(1000, 100) == 0
    assert rate.per_second(100) == pytest.approx(5000 / 10.1)


@pytest.mark.parametrize(("limit", "expected"), [(1e-300, THROTTLE_MS_MAX), (nan, 0), (inf, 0)])
def test_limits_that_are_hardly_numbers(limit: float, expected: int) -> None:
    rate = QuotaRate(11, 1000, 0)
    rate.record(1e12, 0)
    assert rate.throttle_ms(limit, 0) == expected


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 20_000)), min_size=200, max_size=300),
    st.integers(20_000, 100_000),
)
def test_client_that_waits_keeps_to_its_quota(requests: list[tuple[int, int]], limit: int) -> None:
    """Over a long time: the quota, and a burst of the windows that were empty before.

    A request of more than the quota of all windows may be followed by another burst, as in Kafka.
    """
    rate = QuotaRate(11, 1000, 0)
    now_ms = total = 0
    for wait_ms, size in requests:
        now_ms += wait_ms
        rate.record(size, now_ms)
        total += size
        now_ms += rate.throttle_ms(limit, now_ms)
        assert total <= limit * (now_ms / 1000 + 10) * 1.001 + 1
