"""The duties of every assignor, and the promises of each."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.coordinator.core.steps import run_through
from barnabas.coordinator.groups.consumer.assignors.assignor import (
    Assignor,
    AssignorError,
    GroupSpec,
    MemberSpec,
    assigned,
    load_assignors,
)
from barnabas.coordinator.groups.consumer.assignors.range_assignor import RangeAssignor
from barnabas.coordinator.groups.consumer.assignors.uniform_assignor import UniformAssignor
from barnabas.coordinator.groups.consumer.consumer_member import Assignment
from barnabas.protocol.types import Uuid
from tests.coordinator.groups.group_harness import topic_id

TOPICS = {topic_id(name): count for name, count in {"a": 1, "b": 4, "c": 7, "d": 3}.items()}


def group(
    subscriptions: Mapping[str, frozenset[Uuid]],
    targets: Mapping[str, Assignment] | None = None,
    partitions: Mapping[Uuid, int] = TOPICS,
    instances: Mapping[str, str] | None = None,
) -> GroupSpec:
    members = {
        id_: MemberSpec(id_, topics, (targets or {}).get(id_, {}), (instances or {}).get(id_))
        for id_, topics in subscriptions.items()
    }
    return GroupSpec(members=members, partitions=partitions, racks=lambda *_: [])


def assign(assignor: Assignor, spec: GroupSpec) -> dict[str, Assignment]:
    return run_through(assigned(assignor, spec))


def placed(given: Mapping[str, Assignment]) -> dict[tuple[Uuid, int], str]:
    """Return the owner of each partition; an assertion fails when two members have one."""
    owners: dict[tuple[Uuid, int], str] = {}
    for member_id, assignment in given.items():
        for topic, partitions in assignment.items():
            for partition in partitions:
                assert (topic, partition) not in owners
                owners[topic, partition] = member_id
    return owners


def loads(given: Mapping[str, Assignment]) -> dict[str, int]:
    return {id_: sum(map(len, assignment.values())) for id_, assignment in given.items()}


subscriptions = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]),
    st.sets(st.sampled_from(sorted(TOPICS))).map(frozenset),
    min_size=1,
)
same_subscriptions = st.tuples(
    st.sets(st.sampled_from(["m1", "m2", "m3", "m4", "m5"]), min_size=1),
    st.sets(st.sampled_from(sorted(TOPICS)), min_size=1).map(frozenset),
).map(lambda drawn: dict.fromkeys(sorted(drawn[0]), drawn[1]))
assignors = st.sampled_from([UniformAssignor(), RangeAssignor()])


@given(assignors, st.one_of(subscriptions, same_subscriptions))
@settings(max_examples=150, derandomize=True)
def test_assignor_gives_each_consumed_partition_one_consumer(
    assignor: Assignor, subscribed: dict[str, frozenset[Uuid]]
) -> None:
    spec = group(subscribed)
    owners = placed(assign(assignor, spec))
    consumed = {topic for topics in subscribed.values() for topic in topics}
    assert set(owners) == {(t, p) for t in consumed for p in range(TOPICS[t])}
    for (topic, _), member_id in owners.items():
        assert topic in subscribed[member_id]


@given(same_subscriptions, same_subscriptions)
@settings(max_examples=150, derandomize=True)
def test_uniform_assignor_is_even_with_fewest_moves(
    before: dict[str, frozenset[Uuid]], after: dict[str, frozenset[Uuid]]
) -> None:
    first = assign(UniformAssignor(), group(before))
    spec = group(after, targets=first)
    second = assign(UniformAssignor(), spec)
    counts = loads(second)
    assert max(counts.values()) - min(counts.values()) <= 1
    placed(second)
    # A member below its share has kept all that it may still have.
    for member_id, member in spec.members.items():
        may_keep = {(t, p) for t, ps in member.target.items() if t in after[member_id] for p in ps}
        kept = may_keep & {(t, p) for t, ps in second[member_id].items() for p in ps}
        assert kept == may_keep or counts[member_id] == len(kept)


@given(subscriptions, subscriptions)
@settings(max_examples=150, derandomize=True)
def test_uniform_assignor_balances_topics_of_two_members(
    before: dict[str, frozenset[Uuid]], after: dict[str, frozenset[Uuid]]
) -> None:
    first = assign(UniformAssignor(), group(before))
    spec = group(after, targets=first)
    given_ = assign(UniformAssignor(), spec)
    placed(given_)
    counts = loads(given_)
    for rich, assignment in given_.items():
        for poor, topics in after.items():
            if counts[rich] - counts[poor] > 1:
                assert not assignment.keys() & topics


def test_uniform_assignor_same_group_keeps_its_assignment() -> None:
    everybody = dict.fromkeys(["m1", "m2", "m3"], frozenset(TOPICS))
    first = assign(UniformAssignor(), group(everybody))
    spec = group(everybody, targets=first)
    assert assign(UniformAssignor(), spec) == first


def test_uniform_assignor_recreated_topic_loses_missing_partitions() -> None:
    topic = topic_id("a")
    subscribed = dict.fromkeys(["m1", "m2"], frozenset({topic}))
    targets = {"m1": {topic: frozenset({0, 1})}, "m2": {topic: frozenset({2, 3})}}
    for partitions in ({topic: 2}, {topic: 3}):
        spec = group(subscribed, targets, partitions)
        owners = placed(assign(UniformAssignor(), spec))
        assert {partition for _, partition in owners} == set(range(partitions[topic]))


def test_range_assignor_same_numbers_go_to_the_same_member() -> None:
    topics = frozenset({topic_id("b"), topic_id("d")})
    spec = group(dict.fromkeys(["m2", "m1"], topics), partitions=dict.fromkeys(topics, 4))
    given_ = assign(RangeAssignor(), spec)
    assert given_["m1"] == dict.fromkeys(sorted(topics), frozenset({0, 1}))
    assert given_["m2"] == dict.fromkeys(sorted(topics), frozenset({2, 3}))


def test_range_assignor_static_members_come_first() -> None:
    topic = topic_id("c")
    spec = group(
        dict.fromkeys(["x", "y", "z"], frozenset({topic})), instances={"z": "i1", "x": "i2"}
    )
    given_ = assign(RangeAssignor(), spec)
    assert [given_[id_][topic] for id_ in ("z", "x", "y")] == [
        frozenset({0, 1, 2}),
        frozenset({3, 4}),
        frozenset({5, 6}),
    ]


class Hoarder:
    """An assignor of a user: everything to the first member."""

    name = "hoarder"

    def assign(self, group: GroupSpec) -> Mapping[str, Assignment]:
        first = min(group.members)
        return {first: {t: frozenset(range(c)) for t, c in group.partitions.items()}}


class Fixed(Hoarder):
    """Always the same."""

    def __init__(self, given: Mapping[str, Assignment]) -> None:
        self.given = given

    def assign(self, group: GroupSpec) -> Mapping[str, Assignment]:
        return self.given


def test_assigned_missing_partition_is_refused() -> None:
    topic = topic_id("b")
    spec = group({"m": frozenset({topic})})
    with pytest.raises(AssignorError, match="which has 4"):
        assign(Fixed({"m": {topic: frozenset({4})}}), spec)
    assert assign(Fixed({"stranger": {topic: frozenset({1})}}), spec) == {"m": {}}


def test_group_spec_has_the_owners_of_the_last_target() -> None:
    targets = {"m1": {topic_id("b"): frozenset({0, 2})}, "m2": {topic_id("b"): frozenset({1})}}
    spec = group(dict.fromkeys(targets, frozenset({topic_id("b")})), targets)
    assert spec.owners == {topic_id("b"): {0: "m1", 1: "m2", 2: "m1"}}


def test_assignor_partition_of_two_targets_goes_to_one() -> None:
    topic = topic_id("b")
    both = {"m1": {topic: frozenset({0, 1})}, "m2": {topic: frozenset({1, 2})}}
    spec = group(dict.fromkeys(both, frozenset({topic})), both)
    assert set(placed(assign(UniformAssignor(), spec))) == {(topic, p) for p in range(4)}


@pytest.mark.parametrize("assignor", [UniformAssignor(), RangeAssignor()])
@pytest.mark.parametrize("alike", [True, False], ids=["alike", "different"])
def test_assignor_ten_thousand_topics_take_many_steps(assignor: Assignor, alike: bool) -> None:
    counts = {topic_id(f"t{number}"): 2 for number in range(10_000)}
    some = frozenset(list(counts)[:100])
    subscribed = {f"m{n}": frozenset(counts) if alike or n else some for n in range(20)}
    spec = group(subscribed, partitions=counts)
    assert sum(1 for _ in assigned(assignor, spec)) > 50


def test_load_assignors_accepts_name_class_and_import_path() -> None:
    names = [
        "range",
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
        f"{__name__}:Hoarder",
    ]
    assert list(load_assignors(names)) == ["range", "uniform", "hoarder"]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["magic"], "magic is neither"),
        (["nowhere.at:All"], "nowhere.at:All is neither"),
        (["uniform", "uniform"], "two assignors are named uniform"),
        ([], "at least one"),
    ],
)
def test_load_assignors_invalid_name_is_refused(names: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        load_assignors(names)
