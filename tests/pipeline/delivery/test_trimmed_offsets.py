"""Offsets that retention deleted before a running query read them."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.driver.trimmed_offsets import REPORT_EVERY_S, TrimmedReports, count


def test_rows_without_a_gap_need_no_log_start() -> None:
    def unexpected() -> int:
        raise AssertionError("the log start offset is read")

    assert count([5, 6, 7], 5, unexpected) == 0
    assert count([5, 5, 6, 6], 5, unexpected) == 0
    assert count([3, 4, 5], 5, unexpected) == 0
    assert count([], 5, unexpected) == 0


def test_deleted_offsets_count_and_other_gaps_do_not() -> None:
    assert count([10, 11], 5, lambda: 10) == 5
    assert count([10, 11], 5, lambda: 8) == 3
    assert count([10, 11], 5, lambda: 5) == 0
    assert count([10, 20, 21], 10, lambda: 20) == 9
    assert count([10, 20, 22], 8, lambda: 20) == 2 + 9
    assert count([10, 10, 13], 10, lambda: 100) == 2


@given(
    following=st.integers(0, 30),
    offsets=st.lists(st.integers(0, 40), min_size=1).map(sorted),
    start=st.integers(0, 50),
)
def test_count_is_that_of_the_missing_offsets_before_the_log_start(
    following: int, offsets: list[int], start: int
) -> None:
    missing = set(range(following, offsets[-1])) - set(offsets)
    assert count(offsets, following, lambda: start) == sum(each < start for each in missing)


def test_reports_come_at_once_then_in_intervals_and_at_the_end() -> None:
    reports = TrimmedReports()
    assert reports.due(0, 0.0) == 0
    assert reports.due(7, 1.0) == 7
    assert reports.due(9, 2.0) == 0
    assert reports.due(9, 1.0 + REPORT_EVERY_S) == 2
    assert reports.due(12, 2.0 + REPORT_EVERY_S) == 0
    assert (reports.rest(), reports.rest()) == (3, 0)
