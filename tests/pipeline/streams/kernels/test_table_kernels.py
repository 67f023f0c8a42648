"""Tables read, regrouped and aggregated, against dicts."""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_chain import Chain
from barnabas.pipeline.streams.kernels.kernel_rows import Row
from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation
from barnabas.pipeline.streams.kernels.table_aggregates import TableAggregate
from barnabas.pipeline.streams.kernels.table_kernels import (
    TableRegroup,
    TableSource,
)
from tests.pipeline.streams.kernels.kernel_runs import KEYS, record, rows, run

tables = rows(keys=[*KEYS, None])


def replayed(changes: list[Row]) -> dict[object, object]:
    """Return the table of changes, where each change must know the value before it."""
    table: dict[object, object] = {}
    for row in changes:
        assert row.old == table.get(row.key)
        table[row.key] = row.value
    return {key: value for key, value in table.items() if value is not None}


def table_of(taken: list[Row]) -> dict[bytes, int]:
    table = {row.key: row.value for row in taken if row.key is not None}
    return {key: value for key, value in table.items() if value is not None}


@settings(deadline=None)
@given(tables)
def test_table_source_sends_old_values(taken: list[Row]) -> None:
    found = run(TableSource(), taken)
    assert replayed(found) == table_of(taken)
    assert len(found) == sum(row.key is not None for row in taken)


summing = TableAggregate(
    Aggregation(lambda key, value, found: found + value, lambda: 0),
    lambda key, value, found: found - value,
)


def grouped(key: bytes | None, value: int) -> tuple[bytes | None, object]:
    """Group by parity; 3 has no group and 5 no value."""
    return (None if value == 3 else b"odd" if value % 2 else b"even"), None if value == 5 else value


@settings(deadline=None)
@given(tables)
def test_table_aggregate_is_the_sum_of_the_table_s_groups(taken: list[Row]) -> None:
    source, state = Chain([TableSource(), TableRegroup(grouped)]), BucketState()
    sums: dict[object, object] = {}
    groups = BucketState()
    for row in taken:
        for output in run(summing, run(source, [row], state), groups):
            sums[output.key] = output.value
    expected: dict[object, int] = defaultdict(int)
    for value in table_of(taken).values():
        group, kept = grouped(None, value)
        if group is not None and kept is not None:
            expected[group] += value
    assert {key: value for key, value in sums.items() if value} == {
        key: value for key, value in expected.items() if value
    }


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), max_size=10))
def test_table_aggregate_has_the_largest_timestamp_so_far(times: list[int]) -> None:
    taken = [
        record(b"g", 1, time_ms)._replace(old=None if place == 0 else 1)
        for place, time_ms in enumerate(times)
    ]
    found = [row.timestamp_ms for row in run(summing, taken)]
    assert found == [max(times[: place + 1]) for place in range(len(times))]


def test_table_regroup_that_changes_the_group_removes_first() -> None:
    row = record(b"a", 2, 0)._replace(old=1)
    found = run(TableRegroup(grouped), [row])
    assert [(one.key, one.value, one.old) for one in found] == [
        (b"odd", None, 1),
        (b"even", 2, None),
    ]


def test_table_reduction_of_a_forgotten_group_starts_again() -> None:
    last = TableAggregate(
        Aggregation(lambda key, value, found: value), lambda key, value, found: None
    )
    taken = [
        record(b"g", 1, 0),
        record(b"g", None, 1)._replace(old=1),
        record(b"g", 2, 2),
    ]
    assert [row.value for row in run(last, taken)] == [1, None, 2]


def test_table_regroup_within_a_group_is_one_change() -> None:
    row = record(b"a", 2, 0)._replace(old=4)
    found = run(TableRegroup(grouped), [row])
    assert [(one.key, one.value, one.old) for one in found] == [(b"even", 2, 4)]
