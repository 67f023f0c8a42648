"""Decisions of a flow from the state of both clusters: topics, starts, groups, tasks."""

import attrs
import pytest

from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry
from barnabas.pipeline.delivery.plan.job_plan import OnTrim
from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata
from barnabas.pipeline.mirror.flow_connector import flow_settings
from barnabas.pipeline.mirror.flow_starts import FlowStart, PartitionView, start_of
from barnabas.pipeline.mirror.flow_values import FlowRange
from barnabas.pipeline.mirror.group_following import offsets_to_write
from barnabas.pipeline.mirror.name_patterns import is_selected
from barnabas.pipeline.mirror.range_planning import divided, ranges_to_copy
from barnabas.pipeline.mirror.topic_acls import TopicAcl, acls_to_add
from barnabas.pipeline.mirror.topic_following import (
    AlterStep,
    CreateStep,
    FlowRefusedError,
    FollowingRules,
    GrowStep,
    TopicView,
    selected,
    steps,
)

RULES = FollowingRules("flow", True, True, (r"min\.insync\.replicas",))
ASSIGNED = attrs.evolve(RULES, is_identical=False)
SOURCE = TopicView("t", 3, {"retention.ms": "5", "min.insync.replicas": "2"})
MIRROR = TopicView("t", 3, {"retention.ms": "5", "barnabas.mirror.source": "flow"})
FRESH = PartitionView("t", 0, "id", "cluster", 0, 100, 0, 0, None, OffsetMetadata())
TAKEN = OffsetMetadata("id", "cluster")


def test_a_pattern_selects_whole_names_and_no_internal_topics() -> None:
    existing = {"a-1": False, "a-2": False, "ba-1": False, "a-3": True, "__a-4": False}
    assert selected((), "a-.*", existing) == ["a-1", "a-2"]
    assert selected((), ".*", existing) == ["a-1", "a-2", "ba-1"]
    with pytest.raises(FlowRefusedError, match="topic c does not exist at the source"):
        selected(("a-1", "c"), None, existing)


def test_a_missing_topic_is_created_with_the_properties_of_the_source() -> None:
    mirror = {"retention.ms": "5", "barnabas.mirror.source": "flow"}
    assert steps(SOURCE, None, RULES, is_known=False) == [CreateStep("t", 3, mirror)]
    assert steps(SOURCE, None, ASSIGNED, is_known=False) == [
        CreateStep("t", 3, {"retention.ms": "5"})
    ]


def test_partitions_and_properties_follow() -> None:
    assert steps(SOURCE, MIRROR, RULES, is_known=True) == []
    before = TopicView("t", 2, {"barnabas.mirror.source": "flow", "segment.bytes": "9"})
    assert steps(SOURCE, before, RULES, is_known=True) == [
        GrowStep("t", 3),
        AlterStep("t", {"retention.ms": "5", "segment.bytes": None}),
    ]
    unsynced = attrs.evolve(RULES, copies_configs=False)
    assert steps(SOURCE, before, unsynced, is_known=True) == [GrowStep("t", 3)]


@pytest.mark.parametrize(
    ("target", "rules", "is_known", "message"),
    [
        (TopicView("t", 2), ASSIGNED, False, "has 2 partitions at the target and 3 at the source"),
        (attrs.evolve(MIRROR, configs={"barnabas.mirror.source": "o"}), RULES, True, "of flow o"),
        (MIRROR, ASSIGNED, True, "is a mirror of flow flow at the target"),
        (TopicView("t", 3, {"barnabas.mirror.promoted": "flow:1"}), RULES, True, "was promoted"),
        (TopicView("t", 3), RULES, True, "its property barnabas.mirror.source was removed"),
        (TopicView("t", 3, has_records=True), RULES, False, "has records at the target"),
    ],
)
def test_a_topic_that_the_flow_must_not_write_is_refused(
    target: TopicView, rules: FollowingRules, is_known: bool, message: str
) -> None:
    with pytest.raises(FlowRefusedError, match=message):
        steps(SOURCE, target, rules, is_known=is_known)


@pytest.mark.parametrize(
    ("changes", "is_identical", "position", "trimmed"),
    [
        ({}, False, 0, 0),
        ({"source_start": 40}, False, 40, 0),
        ({"source_start": 40}, True, 40, 0),
        ({"committed": 60, "target_end": 9}, False, 60, 0),
        ({"committed": 3, "target_end": 60}, True, 60, 0),
        ({"target_start": 60, "target_end": 60}, True, 60, 0),
        ({"committed": 60, "source_start": 70}, False, 70, 10),
    ],
)
def test_a_flow_starts_at_its_position(changes, is_identical, position, trimmed) -> None:
    view = attrs.evolve(FRESH, metadata=TAKEN, leader_epoch=4, **changes)
    found = start_of(view, OnTrim.SKIP, is_identical=is_identical)
    # The committed epoch is that of the batch before the position, if the flow continues there.
    epoch = 4 if position == 60 else -1
    assert found == FlowStart(position, trimmed, epoch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_end": 5}, "t-0 has records at the target, and the flow has no position"),
        ({"committed": 60, "source_start": 70}, "retention deleted offsets 60 to 69 of t-0"),
        ({"committed": 160}, "the source has lost offsets 100 to 159"),
        ({"committed": 6, "topic_id": "new"}, "its id was id, is new"),
        ({"committed": 6, "cluster_id": "new"}, "are of cluster cluster, and cluster new answers"),
    ],
)
def test_a_start_that_would_lose_or_repeat_records_is_refused(changes, message) -> None:
    view = attrs.evolve(FRESH, metadata=TAKEN, **changes)
    with pytest.raises(FlowRefusedError, match=message):
        start_of(view, OnTrim.FAIL, is_identical=False)


def test_offsets_of_groups_never_go_backwards_or_beyond_the_copied_records() -> None:
    source = {
        ("t", 0): GroupEntry(50, "m", 3),
        ("t", 1): GroupEntry(7),
        ("t", 2): GroupEntry(5),
        ("other", 0): GroupEntry(5),
    }
    target = {("t", 1): GroupEntry(9)}
    ends = {("t", 0): 30, ("t", 1): 30, ("t", 2): 30}
    found = offsets_to_write(source, target, ends)
    assert found == {("t", 0): GroupEntry(30, "m"), ("t", 2): GroupEntry(5)}
    assert is_selected("orders", [".*"], ["connect-.*"])
    assert not is_selected("connect-x", [".*"], ["connect-.*"])


def test_acls_of_topics_are_copied_without_the_right_to_write() -> None:
    def acl(operation: int, permission: int, topic: str = "t") -> TopicAcl:
        return TopicAcl(topic, "User:reader", "*", operation, permission)

    everything, reading, writing, describing, deny, allow = 2, 3, 4, 8, 2, 3
    source = [
        acl(everything, allow),
        acl(everything, deny),
        acl(writing, allow),
        acl(writing, deny),
        acl(describing, allow),
        acl(reading, allow, "other"),
    ]
    present = [acl(describing, allow), acl(writing, allow)]
    assert acls_to_add(source, present, {"t": "t"}) == [
        acl(everything, deny),
        acl(reading, allow),
        acl(writing, deny),
    ]


def test_tasks_share_the_ranges_evenly() -> None:
    ends = {("t", n): 10 * n for n in range(4)}
    ranges = ranges_to_copy({("t", n): 0 for n in range(4)}, ends, {})
    assert ranges == [FlowRange("t", n, 0, 10 * n) for n in (1, 2, 3)]
    kept = ranges_to_copy({("t", 0): 5}, {("t", 0): 5}, {("t", 0): 2}, keeps=True)
    assert kept == [FlowRange("t", 0, 5, 5, 2)]
    tasks = divided(ranges, 2)
    assert sorted(sum(each.until for each in task) for task in tasks) == [30, 30]
    assert divided(ranges[:1], 8) == [ranges[:1]]


def test_a_flow_needs_a_source_and_a_name_that_topics_can_carry() -> None:
    runner = {"bootstrap.servers": "runner:1"}
    given = {"name": "flow", "source.bootstrap.servers": "source:2", "source.client.id": "x"}
    found = flow_settings(given, runner)
    assert (str(found.source.bootstrap[0]), str(found.target.bootstrap[0])) == (
        "source:2",
        "runner:1",
    )
    assert found.target.client_id == "flow"
    with pytest.raises(ConfigValueError, match=r"source\.bootstrap\.servers"):
        flow_settings({"name": "flow"}, runner)
    with pytest.raises(ConfigValueError, match="configuration name"):
        flow_settings({**given, "name": "a flow"}, runner)
