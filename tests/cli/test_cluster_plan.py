"""Plans of reassignments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.reassignment_plan import (
    Place,
    PlanError,
    Replicas,
    changes,
    drain,
    from_json,
    spread,
)

BROKERS = st.lists(st.integers(1, 9), min_size=3, max_size=6, unique=True)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], Replicas]:
    brokers = draw(BROKERS)
    count = draw(st.integers(1, 12))
    replicas = st.permutations(brokers).flatmap(
        lambda order: st.integers(1, 3).map(lambda size: list(order[:size]))
    )
    return brokers, {Place("t", number): draw(replicas) for number in range(count)}


@given(clusters())
def test_drain_moves_every_replica_off_and_keeps_the_rest(
    cluster: tuple[list[int], Replicas],
) -> None:
    brokers, current = cluster
    gone = brokers[0]
    try:
        plan = drain(current, gone, brokers)
    except PlanError:
        assert any(gone in each and len(each) == len(brokers) for each in current.values())
        return
    assert set(plan) == {place for place, each in current.items() if gone in each}
    for place, replicas in plan.items():
        assert gone not in replicas
        assert len(set(replicas)) == len(current[place])
        kept = [each for each in current[place] if each != gone]
        assert [each for each in replicas if each in kept] == kept


@given(clusters())
def test_spread_uses_only_the_given_brokers_and_balances_leaders(
    cluster: tuple[list[int], Replicas],
) -> None:
    brokers, current = cluster
    plan = spread(current, brokers)
    leaders = [replicas[0] for replicas in plan.values()]
    for place, replicas in plan.items():
        assert len(set(replicas)) == len(replicas) == len(current[place])
        assert set(replicas) <= set(brokers)
    counts = [leaders.count(broker) for broker in brokers]
    assert max(counts) - min(counts) <= 1


def test_spread_over_too_few_brokers_is_refused() -> None:
    with pytest.raises(PlanError, match="t-0 has 2 replicas, more than the 1 brokers given"):
        spread({Place("t", 0): [1, 2]}, [3])


def test_spread_can_change_the_number_of_replicas() -> None:
    plan = spread({Place("t", 0): [1], Place("t", 1): [1]}, [1, 2, 3], 3)
    assert plan == {Place("t", 0): [1, 2, 3], Place("t", 1): [2, 3, 1]}


def test_from_json_reads_a_plan_of_kafkas_tool() -> None:
    text = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'
    assert from_json(text) == {Place("t", 0): [2, 3]}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"partitions":[{"topic":"t"}]}'])
def test_from_json_of_another_document_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="the plan is not"):
        from_json(text)


def test_changes_leave_out_what_is_in_place() -> None:
    current = {Place("t", 0): [1, 2], Place("t", 1): [2, 1]}
    assert changes(current, {Place("t", 0): [1, 2], Place("t", 1): [1, 2]}) == {
        Place("t", 1): [1, 2]
    }
    with pytest.raises(PlanError, match="u-0 does not exist"):
        changes(current, {Place("u", 0): [1]})
