"""Foreign-key joins through their three kernels, against a join of dicts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.foreign_key_joins import (
    ForeignKeyLookup,
    ForeignKeyRespond,
    ForeignKeySubscribe,
)
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side, in_stream_order
from tests.pipeline.streams.kernels.kernel_runs import record

FOREIGN = [b"x", b"y"]
lefts = st.builds(
    record,
    st.sampled_from([b"a", b"b", b"c"]),
    st.none() | st.tuples(st.sampled_from([*FOREIGN, None]), st.integers(0, 3)).map(list),
    st.integers(0, 20),
)
rights = st.builds(
    record,
    st.sampled_from(FOREIGN),
    st.none() | st.integers(0, 3),
    st.integers(0, 20),
    st.just(Side.RIGHT),
)
changes = st.lists(lefts | rights, max_size=30)


class Pipeline:
    """The three kernels with a shuffle between, as one query."""

    def __init__(self, *, is_left: bool) -> None:
        self.subscribe = ForeignKeySubscribe(lambda key, value: value[0], is_left)
        self.lookup = ForeignKeyLookup()
        self.respond = ForeignKeyRespond(lambda key, left, right: [left[1], right], is_left)
        self.states = [BucketState() for _ in range(3)]

    def run(self, batch: list[Row]) -> list[Row]:
        stamped = in_stream_order(batch)
        left = [row for row in stamped if row.side is Side.LEFT]
        right = [row for row in stamped if row.side is Side.RIGHT]
        subscribed = list(self.subscribe.step(left, self.states[0]))
        shuffled = in_stream_order([*subscribed, *right], self.lookup.first)
        answers = list(self.lookup.step(shuffled, self.states[1]))
        shuffled = in_stream_order(answers, self.respond.first)
        return list(self.respond.step(shuffled, self.states[2]))


def expected(taken: list[Row], *, is_left: bool) -> dict[bytes, object]:
    tables: dict[Side, dict[bytes, object]] = {Side.LEFT: {}, Side.RIGHT: {}}
    for row in taken:
        tables[row.side][row.key] = row.value
    found: dict[bytes, object] = {}
    for key, value in tables[Side.LEFT].items():
        if value is not None:
            other = tables[Side.RIGHT].get(value[0])
            if other is not None or is_left:
                found[key] = [value[1], other]
    return found


@settings(deadline=None)
@given(changes, st.booleans(), st.integers(1, 6))
def test_foreign_key_join_of_any_changes_is_the_join_of_dicts(taken, is_left, size) -> None:
    """In batches of `size`, with offsets and rising times as a topic has."""
    pipeline = Pipeline(is_left=is_left)
    placed = [row._replace(offset=place, timestamp_ms=place) for place, row in enumerate(taken)]
    table: dict[object, object] = {}
    for start in range(0, len(placed), size):
        for row in pipeline.run(placed[start : start + size]):
            table[row.key] = row.value
    remaining = {key: value for key, value in table.items() if value is not None}
    assert remaining == expected(taken, is_left=is_left)


def test_inner_foreign_key_join_deletes_a_result_whose_tombstone_was_stale() -> None:
    pipeline = Pipeline(is_left=False)
    pipeline.run([record(b"x", 7, 0, Side.RIGHT), record(b"a", [b"x", 1], 1)])
    batch = [record(b"a", None, 2), record(b"a", [None, 1], 3)]
    rows = pipeline.run([row._replace(offset=place) for place, row in enumerate(batch)])
    assert rows[-1].value is None


def outputs(taken: list[Row], *, is_left: bool) -> list[tuple[object, ...]]:
    pipeline = Pipeline(is_left=is_left)
    return [(row.key, row.value, row.timestamp_ms) for one in taken for row in pipeline.run([one])]


def test_inner_foreign_key_join_sends_one_row_for_each_change() -> None:
    taken = [
        record(b"a", [b"x", 1], 0),
        record(b"x", 7, 5, Side.RIGHT),
        record(b"a", [b"y", 1], 2),
        record(b"x", 8, 6, Side.RIGHT),
        record(b"a", None, 9),
    ]
    assert outputs(taken, is_left=False) == [
        (b"a", None, 0),
        (b"a", [1, 7], 5),
        (b"a", None, 2),
        (b"a", None, 9),
    ]


def test_left_foreign_key_join_sends_rows_without_a_match() -> None:
    taken = [
        record(b"a", [b"x", 1], 0),
        record(b"x", 7, 5, Side.RIGHT),
        record(b"a", [None, 2], 6),
        record(b"a", None, 9),
        record(b"a", None, 10),
    ]
    assert outputs(taken, is_left=True) == [
        (b"a", [1, None], 0),
        (b"a", [1, 7], 5),
        (b"a", [2, None], 6),
        (b"a", None, 9),
    ]


def test_foreign_key_answer_to_a_changed_row_is_dropped() -> None:
    pipeline = Pipeline(is_left=True)
    asked = list(pipeline.subscribe.step([record(b"a", [b"x", 1], 0)], pipeline.states[0]))
    left, answer = pipeline.lookup.step(asked, pipeline.states[1])
    changed = [left, record(b"a", [b"x", 2], 1), answer]
    assert list(pipeline.respond.step(changed, pipeline.states[2])) == []
    assert pipeline.states[2].dropped == {"stale answer": 1}


@pytest.mark.parametrize("is_left", [False, True])
def test_foreign_key_subscription_that_ends_is_forgotten(is_left: bool) -> None:
    pipeline = Pipeline(is_left=is_left)
    pipeline.run([record(b"a", [b"x", 1], 0)])
    pipeline.run([record(b"a", [b"y", 1], 1)])
    assert list(pipeline.states[1].keys("subscriptions")) == [b"y"]
    pipeline.run([record(b"a", None, 2)])
    assert list(pipeline.states[1].keys("subscriptions")) == []
