"""Sessions, against the groups of near rows, and against a naive merge."""

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Window
from barnabas.pipeline.streams.kernels.session_windows import SessionWindowAggregate
from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation
from tests.pipeline.streams.kernels.kernel_runs import KEYS, facts, record, rows, run

collecting = Aggregation(lambda key, value, found: [*found, value], list)


def kernel(gap_ms: int = 5, grace_ms: int = 10_000) -> SessionWindowAggregate:
    return SessionWindowAggregate(gap_ms, collecting, lambda key, one, two: one + two, grace_ms)


def groups(taken: list[Row], gap_ms: int) -> dict[tuple[object, Window], list[object]]:
    """Return the values of rows that are at most a gap from the next."""
    found: dict[tuple[object, Window], list[object]] = {}
    for key in KEYS:
        of_key = sorted((row.timestamp_ms, row.value) for row in taken if row.key == key)
        while of_key:
            end = 1
            while end < len(of_key) and of_key[end][0] - of_key[end - 1][0] <= gap_ms:
                end += 1
            window = Window(of_key[0][0], of_key[end - 1][0])
            found[key, window] = sorted(value for _, value in of_key[:end])
            of_key = of_key[end:]
    return found


@settings(deadline=None)
@given(rows(values=st.integers(0, 9)), st.integers(0, 8))
def test_sessions_that_remain_are_groups_of_near_rows(taken: list[Row], gap_ms: int) -> None:
    last: dict[tuple[object, Window | None], object] = {}
    for row in run(kernel(gap_ms), taken):
        last[row.key, row.window] = row.value
        assert row.window is not None
        assert row.timestamp_ms == row.window.end_ms
    remaining = {name: sorted(value) for name, value in last.items() if value is not None}
    assert remaining == groups(taken, gap_ms)


Sessions = list[tuple[bytes, int, int, list[object]]]


def naive(taken: list[Row], gap_ms: int, grace_ms: int) -> list[tuple[object, ...]]:
    """Merge sessions of a flat list, without removing any for age but in the last step."""
    now_ms = -1
    sessions: Sessions = []
    found: list[tuple[object, ...]] = []
    for row in (row for row in taken if row.key is not None):
        expired_ms = now_ms - gap_ms - grace_ms
        now_ms = max(now_ms, row.timestamp_ms)
        reach = range(row.timestamp_ms - gap_ms, row.timestamp_ms + gap_ms + 1)
        near = [
            session
            for session in sessions
            if session[0] == row.key
            and session[2] > expired_ms
            and session[2] >= reach.start
            and session[1] < reach.stop
        ]
        merged = sorted(near, key=lambda session: (session[2], session[1]))
        start_ms = min([row.timestamp_ms, *(session[1] for session in merged)])
        end_ms = max([row.timestamp_ms, *(session[2] for session in merged)])
        if end_ms < now_ms - gap_ms - grace_ms:
            continue
        for session in merged:
            sessions.remove(session)
            if (start_ms, end_ms) != (row.timestamp_ms, row.timestamp_ms):
                found.append((row.key, Window(session[1], session[2]), None, session[2]))
        value = [value for session in merged for value in session[3]] + [row.value]
        sessions.append((row.key, start_ms, end_ms, value))
        found.append((row.key, Window(start_ms, end_ms), value, end_ms))
    return found


@settings(deadline=None)
@given(rows(keys=[*KEYS, None], until_ms=90), st.integers(0, 8), st.sampled_from([0, 1, 7]))
def test_sessions_of_late_rows_are_those_of_a_naive_merge(taken, gap_ms, grace_ms) -> None:
    assert list(facts(run(kernel(gap_ms, grace_ms), taken))) == naive(taken, gap_ms, grace_ms)


def test_sessions_that_a_row_joins_are_deleted_first() -> None:
    taken = [record(b"a", 1, 0), record(b"a", 2, 10), record(b"a", 3, 5)]
    assert list(facts(run(kernel(), taken))) == [
        (b"a", (0, 0), [1], 0),
        (b"a", (10, 10), [2], 10),
        (b"a", (0, 0), None, 0),
        (b"a", (10, 10), None, 10),
        (b"a", (0, 10), [1, 2, 3], 10),
    ]


def test_session_row_behind_gap_and_grace_is_dropped() -> None:
    state = BucketState()
    taken = [record(b"a", 1, 100), record(b"a", 2, 88)]
    assert len(run(kernel(5, 6), taken, state)) == 1
    assert state.dropped == {"late": 1}


def test_session_reduction_merges_without_an_initial_value() -> None:
    largest = SessionWindowAggregate(
        5,
        Aggregation(lambda key, value, found: max(value, found)),
        lambda key, one, two: max(one, two),
    )
    taken = [record(b"a", 7, 0), record(b"a", 2, 4)]
    assert [row.value for row in run(largest, taken)] == [7, None, 7]


def test_sessions_forget_ended_sessions_of_all_keys() -> None:
    state = BucketState()
    run(kernel(5, 5), [record(bytes([number]), 1, number) for number in range(200)], state)
    assert len(list(state.keys("sessions"))) <= 40


def test_session_that_is_open_takes_a_row_from_before_the_close() -> None:
    """The row at 85 alone would be late; its session ends at 90."""
    taken = [record(b"a", 1, 90), record(b"b", 1, 100), record(b"a", 2, 85)]
    assert list(facts(run(kernel(5, 6), taken)))[-2:] == [
        (b"a", (90, 90), None, 90),
        (b"a", (85, 90), [1, 2], 90),
    ]
