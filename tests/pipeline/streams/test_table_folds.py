"""Aggregates of a table's groups on JSON, as apps run them, against aggregates of a dict."""

import base64
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.streams.folded_groups import (
    SUM,
    TABLE_COUNT,
    TABLE_SUM,
    Fold,
    TableFold,
    group_of,
)
from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_chain import Chain
from barnabas.pipeline.streams.kernels.kernel_rows import Row
from barnabas.pipeline.streams.kernels.table_kernels import TableRegroup, TableSource
from tests.pipeline.streams.kernels.kernel_runs import run

Change = tuple[bytes, tuple[str | None, int] | None]
changes = st.lists(
    st.tuples(
        st.sampled_from([b"1", b"2", b"3"]),
        st.none() | st.tuples(st.sampled_from(["x", "y", None]), st.integers(-5, 5)),
    ),
    max_size=30,
)


def packed(change: Change, offset: int) -> Row:
    """Return a change as Spark packs it: the bytes of the group as base64, and the value."""
    key, found = change
    if found is None:
        return Row(key, None, offset, offset=offset)
    group, value = found
    name = None if group is None else base64.b64encode(group.encode()).decode()
    return Row(key, json.dumps({"g": name, "v": value}).encode(), offset, offset=offset)


def aggregates(fold: TableFold, taken: list[Change]) -> dict[bytes | None, Any]:
    """Return the newest aggregate of each group."""
    rows = [packed(change, offset) for offset, change in enumerate(taken)]
    regrouped = run(Chain([TableSource(), TableRegroup(group_of)]), rows, BucketState())
    found = run(fold.kernel(), regrouped)
    return {row.key: None if row.value is None else json.loads(row.value)["v"] for row in found}


def groups(taken: list[Change]) -> Mapping[bytes, list[int]]:
    """Return the values of each group that was ever there."""
    table = dict(taken)
    found: dict[bytes, list[int]] = defaultdict(list)
    for _, entry in taken:
        if entry is not None and entry[0] is not None:
            found[entry[0].encode()] = []
    for entry in table.values():
        if entry is not None and entry[0] is not None:
            found[entry[0].encode()].append(entry[1])
    return found


@settings(deadline=None)
@given(changes)
def test_table_fold_of_any_changes_is_the_aggregate_of_the_newest_values(
    taken: list[Change],
) -> None:
    expected = groups(taken)
    assert aggregates(TABLE_COUNT, taken) == {key: len(found) for key, found in expected.items()}
    assert aggregates(TABLE_SUM, taken) == {key: sum(found) for key, found in expected.items()}


@settings(deadline=None)
@given(changes)
def test_table_fold_that_returns_none_deletes_the_group(taken: list[Change]) -> None:
    def add(found: list[int], value: int) -> list[int]:
        return sorted([*found, value])

    def remove(found: list[int], value: int) -> list[int] | None:
        found.remove(value)
        return found or None

    expected = {key: sorted(found) or None for key, found in groups(taken).items()}
    assert aggregates(TableFold(Fold(add, [], has_initial=True), remove), taken) == expected


def test_function_of_a_table_that_raises_is_a_permanent_failure_with_the_key() -> None:
    def remove(total: int, value: int) -> int:
        raise ValueError("no way back")

    taken: list[Change] = [(b"1", ("x", 1)), (b"1", ("x", 2))]
    with pytest.raises(TaskFailureError) as raised:
        aggregates(TableFold(SUM, remove), taken)
    assert raised.value.failure.is_permanent
    assert "remove raised ValueError for key b'x': no way back" in raised.value.failure.message
