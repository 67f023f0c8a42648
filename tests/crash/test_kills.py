"""A few kills in every test run; `make soak` does it for as long as it is told."""

from tests.crash.kills import judge, run, run_compacted


def test_kills_under_load_lose_and_change_nothing() -> None:
    assert run(cycles=8, seed=7) == []


def test_kills_while_it_compacts_leave_the_last_value_of_each_key() -> None:
    assert run_compacted(cycles=6, seed=3) == []


def test_the_judge_sees_what_is_lost_changed_and_doubled() -> None:
    class Told:
        acked = {(0, 0): b"none 0 a", (0, 1): b"none 1 b", (0, 2): b"none 2 c"}
        faults: list[str] = []

    whole = dict(Told.acked)
    assert judge([Told()], whole) == []
    assert len(judge([Told()], {**whole, (0, 1): b"none 1 x"})) == 1
    assert len(judge([Told()], {k: v for k, v in whole.items() if k != (0, 2)})) == 1
    assert len(judge([Told()], {**whole, (0, 3): b"none 2 c"})) == 1
