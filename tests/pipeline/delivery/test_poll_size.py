"""The number of records that a writer gets at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.forward.poll_size import PollSize

MOST = 5_000


def settled(per_record_s: float, most: int = MOST) -> list[int]:
    """Return the sizes that a writer with a constant time for a record gets."""
    size = PollSize(most)
    found: list[int] = []
    for _ in range(40):
        found.append(size.records)
        size.note(size.records, size.records * per_record_s)
    return found


def test_fast_writer_soon_gets_the_most() -> None:
    assert settled(0.000_01)[:10] == [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 5000]


@pytest.mark.parametrize("per_record_s", [0.001, 0.01, 0.1, 0.5])
def test_slow_writer_gets_what_it_writes_in_a_second(per_record_s: float) -> None:
    sizes = settled(per_record_s)[8:]
    assert max(sizes) * per_record_s <= 1.0
    assert min(sizes) * per_record_s >= 0.1


def test_slowest_writer_gets_single_records() -> None:
    assert settled(20.0)[1:] == [1] * 39


def test_few_records_say_nothing_about_more() -> None:
    size = PollSize(MOST)
    for _ in range(9):
        size.note(1, 0.001)
    assert size.records == 16


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 600)), max_size=40),
)
def test_size_stays_between_one_and_the_most(most: int, polls: list[tuple[float, float]]) -> None:
    size = PollSize(most)
    for share, elapsed_s in polls:
        size.note(max(1, int(share * size.records)), elapsed_s)
        assert 1 <= size.records <= most
