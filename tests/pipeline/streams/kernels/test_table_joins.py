"""Joins of two tables, against dicts, after each change."""

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from barnabas.pipeline.streams.kernels.table_joins import JoinKind, TableJoin
from tests.pipeline.streams.kernels.kernel_runs import KEYS, record, rows, run

LEFT, RIGHT = Side.LEFT, Side.RIGHT
both = rows(sides=[LEFT, RIGHT], keys=[*KEYS, None])


def joined(key: bytes | None, left: object, right: object) -> object:
    return [left, right]


def result(kind: JoinKind, tables: dict[Side, dict[bytes, Row]], key: bytes) -> object:
    left, right = (tables[side].get(key) for side in (LEFT, RIGHT))
    needed = {JoinKind.INNER: [left, right], JoinKind.LEFT: [left], JoinKind.OUTER: []}[kind]
    if None in needed or (left is None and right is None):
        return None
    return [row and row.value for row in (left, right)]


@settings(deadline=None)
@given(both, st.sampled_from(list(JoinKind)))
def test_table_join_of_any_changes_is_the_join_of_dicts(taken: list[Row], kind: JoinKind) -> None:
    state = BucketState()
    tables: dict[Side, dict[bytes, Row]] = {LEFT: {}, RIGHT: {}}
    for row in taken:
        found = run(TableJoin(joined, kind), [row], state)
        if row.key is None:
            assert found == []
            continue
        before = result(kind, tables, row.key)
        knew = row.key in tables[row.side]
        tables[row.side].pop(row.key, None)
        if row.value is not None:
            tables[row.side][row.key] = row
        after = result(kind, tables, row.key)
        other = tables[RIGHT if row.side is LEFT else LEFT].get(row.key)
        if other is None and (
            kind is JoinKind.INNER
            or (kind is JoinKind.LEFT and row.side is RIGHT)
            or (row.value is None and not knew)
        ):
            assert (found, before, after) == ([], before, before)
            continue
        time_ms = max(row.timestamp_ms, other.timestamp_ms if other else -1)
        assert [(one.value, one.old, one.timestamp_ms) for one in found] == [
            (after, before, time_ms)
        ]


def values(kind: JoinKind, *taken: Row) -> list[object]:
    return [row.value for row in run(TableJoin(joined, kind), taken)]


def test_inner_table_join_without_other_side_forwards_no_tombstone() -> None:
    assert values(JoinKind.INNER, record(b"a", 1, 0), record(b"a", None, 1)) == []


def test_inner_table_join_with_deleted_side_forwards_a_tombstone() -> None:
    taken = [record(b"a", 1, 0), record(b"a", 2, 1, RIGHT), record(b"a", None, 2)]
    assert values(JoinKind.INNER, *taken) == [[1, 2], None]


def test_left_table_join_with_deleted_right_side_keeps_the_left() -> None:
    taken = [record(b"a", 1, 0), record(b"a", 2, 1, RIGHT), record(b"a", None, 2, RIGHT)]
    assert values(JoinKind.LEFT, *taken) == [[1, None], [1, 2], [1, None]]


def test_outer_table_join_with_both_sides_deleted_forwards_one_tombstone() -> None:
    taken = [record(b"a", 2, 1, RIGHT), record(b"a", None, 2, RIGHT), record(b"a", None, 3)]
    assert values(JoinKind.OUTER, *taken) == [[None, 2], None]
