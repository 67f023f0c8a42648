"""Blocks of producer ids: no id twice, and the next block in time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.broker.producer_id_blocks import InvalidBlockError, ProducerIdBlocks


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=8))
def test_ids_of_rising_blocks_are_returned_once_and_in_order(
    blocks: list[tuple[int, int]],
) -> None:
    """Each block begins some ids above the end of the one before it."""
    allocated: list[int] = []
    end = 0
    held = ProducerIdBlocks()
    taken: list[int] = []
    for gap, length in blocks:
        while (producer_id := held.take()) is not None:
            taken.append(producer_id)
        assert held.needs_block
        held.add(end + gap, length)
        allocated += range(end + gap, end + gap + length)
        end += gap + length
    while (producer_id := held.take()) is not None:
        taken.append(producer_id)
    assert taken == allocated


def test_needs_block_at_ninety_percent() -> None:
    blocks = ProducerIdBlocks()
    assert blocks.needs_block
    blocks.add(1000, 1000)
    assert not blocks.needs_block
    needed = [producer_id for producer_id in iter(blocks.take, None) if blocks.needs_block]
    assert needed[0] == 1899
    assert needed[-1] == 1999


def test_prefetched_block_follows_the_current_one() -> None:
    blocks = ProducerIdBlocks()
    blocks.add(0, 10)
    taken = [blocks.take() for _ in range(9)]
    assert blocks.needs_block
    blocks.add(50, 2)
    assert not blocks.needs_block
    assert [*taken, *(blocks.take() for _ in range(4))] == [*range(10), 50, 51, None]


@pytest.mark.parametrize(
    ("start", "length"), [(9, 5), (0, 10), (-1, 5), (10, -1), ((1 << 63) - 5, 6)]
)
def test_block_that_is_not_above_the_current_one_is_refused(start: int, length: int) -> None:
    blocks = ProducerIdBlocks()
    blocks.add(0, 10)
    assert blocks.take() == 0
    with pytest.raises(InvalidBlockError):
        blocks.add(start, length)
    assert blocks.take() == 1
