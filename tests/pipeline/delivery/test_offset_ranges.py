"""The ranges of a batch."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.plan.offset_ranges import OffsetRange, Partition, to_read

PARTITIONS = st.tuples(st.sampled_from("ab"), st.integers(0, 5))
LOGS = st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=9)


def read(
    logs: dict[Partition, tuple[int, int]], records_max: int, turn: int = 0
) -> list[OffsetRange]:
    positions = {where: start for where, (start, _) in logs.items()}
    ends = {where: start + backlog for where, (start, backlog) in logs.items()}
    return to_read(positions, ends, records_max, turn)


@given(LOGS, st.integers(1, 60), st.integers(0, 9))
def test_ranges_start_at_the_positions_and_fill_the_batch(
    logs: dict[Partition, tuple[int, int]], records_max: int, turn: int
) -> None:
    found = read(logs, records_max, turn)
    assert len({each.where for each in found}) == len(found)
    for each in found:
        start, backlog = logs[each.where]
        assert (each.start, each.end) == (start, start + backlog)
        assert 1 <= each.records_max <= backlog
    backlogs = sum(backlog for _, backlog in logs.values())
    assert sum(each.records_max for each in found) == min(records_max, backlogs)


def test_small_backlogs_are_read_whole_and_large_ones_share_the_rest() -> None:
    logs = {("t", 0): (0, 1000), ("t", 1): (5, 10), ("t", 2): (0, 1000), ("t", 3): (9, 0)}
    found = {each.partition: each.records_max for each in read(logs, 100)}
    assert found == {0: 45, 1: 10, 2: 45}


def test_more_partitions_than_records_take_turns() -> None:
    logs = {("t", number): (0, 100) for number in range(5)}
    turns = [[each.partition for each in read(logs, 2, turn)] for turn in range(5)]
    assert sorted(number for turn in turns for number in turn) == sorted([*range(5)] * 2)


def test_partition_whose_end_is_unknown_or_before_its_position_is_not_read() -> None:
    assert to_read({("t", 0): 7, ("t", 1): 7}, {("t", 0): 3}, 10) == []
