"""`ReplicationQuota`: bytes a second over windows, and which replicas it applies to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.replication.replication_quota import ReplicationQuota, throttled_partitions


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((), frozenset[int]()),
        (("0:1", "3:1", "4:11"), frozenset({0, 3})),
        (("*",), None),
    ],
)
def test_throttled_partitions_lists_those_of_the_broker(
    value: tuple[str, ...], expected: frozenset[int] | None
) -> None:
    assert throttled_partitions(value, 1) == expected


def test_is_throttled_follows_the_topics_list() -> None:
    quota = ReplicationQuota()
    quota.throttle("a", frozenset({1}))
    quota.throttle("b", None)
    asked = [("a", 0), ("a", 1), ("b", 7), ("c", 0)]
    assert [quota.is_throttled(*each) for each in asked] == [False, True, True, False]
    quota.throttle("a", frozenset())
    quota.throttle("b", frozenset())
    assert quota.throttles_nothing


def test_is_exceeded_without_a_rate_is_false() -> None:
    quota = ReplicationQuota()
    quota.record(1 << 40, 0)
    assert not quota.is_exceeded(1)


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 5000)), min_size=1, max_size=60))
def test_is_exceeded_equals_the_mean_over_the_windows(steps: list[tuple[int, int]]) -> None:
    quota = ReplicationQuota(windows=3, window_ms=1000)
    quota.rate = 2000
    now_ms = 0
    windows: list[list[int]] = []
    for pause_ms, size in steps:
        now_ms += pause_ms
        quota.record(size, now_ms)
        if not windows or now_ms - windows[-1][0] >= 1000:
            windows.append([now_ms, 0])
        windows[-1][1] += size
        live = [each for each in windows if each[0] > now_ms - 3000]
        rate = sum(each[1] for each in live) * 1000 / max(now_ms - live[0][0], 1000)
        assert quota.is_exceeded(now_ms) == (rate > 2000)


def test_rate_is_kept_by_a_sender_that_waits() -> None:
    """Three leaders answer at once, and throttled partitions are fetched again after 100 ms."""
    quota = ReplicationQuota()
    quota.rate = 1_000_000
    now_ms, sent = 0, {0: 0}
    while now_ms < 40_000:
        total = sent[now_ms]
        if quota.is_exceeded(now_ms):
            now_ms += 100
        else:
            quota.record(3 * 50_000, now_ms)
            total += 3 * 50_000
            now_ms += 10
        sent[now_ms] = total
    assert sent[now_ms] / now_ms == pytest.approx(1000, rel=0.02)
    for start in range(1000, 36_000, 500):
        first, last = (max(at for at in sent if at <= end) for end in (start, start + 4000))
        assert (sent[last] - sent[first]) / 4000 == pytest.approx(1000, rel=0.1)
