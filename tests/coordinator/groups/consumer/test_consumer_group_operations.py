"""Consumer groups where a story is too long: odd records, failing assignors, transactions."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.coordinator.groups.consumer.assignors.assignor import GroupSpec
from barnabas.coordinator.groups.consumer.assignors.uniform_assignor import UniformAssignor
from barnabas.coordinator.groups.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.groups.consumer.consumer_member import Assignment, MemberState
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.rebalance_history import RebalanceHistory
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.protocol.records import consumer_group_records as records
from barnabas.protocol.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.coordinator.groups.group_harness import Coordinator, topic_id

T = topic_id("t")


def coordinator(**settings: Any) -> Coordinator:
    made = Coordinator(GroupSettings(consumer_assignment_interval_ms=0, **settings))
    made.set_topics(t=4)
    return made


def beat(made: Coordinator, member_id: str, epoch: int = 0, **fields: Any) -> Any:
    defaults: dict[str, Any] = {}
    if epoch == 0:
        defaults = {
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
        }
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **(defaults | fields)
    )
    caller = Caller("c", version=1)
    return made.do(made.shard.consumer_heartbeat, request, caller, "", made.now_ms, token="t")


def group_of(made: Coordinator) -> ConsumerGroup:
    found = made.shard._groups["g"]
    assert isinstance(found, ConsumerGroup)
    return found


# Assignors


class Broken:
    """Works for one, fails for two."""

    name = "broken"

    def assign(self, group: GroupSpec) -> Mapping[str, Assignment]:
        if len(group.members) > 1:
            raise RuntimeError("too many")
        return UniformAssignor().assign(group)


class Greedy:
    """Assigns partitions that do not exist."""

    name = "greedy"

    def assign(self, group: GroupSpec) -> Mapping[str, Assignment]:
        return {member_id: {T: frozenset({99})} for member_id in group.members}


def test_consumer_group_failing_assignor_fails_one_request() -> None:
    made = coordinator(consumer_assignors={"broken": Broken()})
    beat(made, "a")
    written = len(made.log)
    assert beat(made, "b") is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (len(made.log), list(group_of(made).members)) == (written, ["a"])
    assert beat(made, "a", 2).member_epoch == 2


def test_consumer_group_invalid_assignment_is_not_written() -> None:
    made = coordinator(consumer_assignors={"greedy": Greedy()})
    assert beat(made, "a") is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not made.log


def test_consumer_group_removed_assignor_is_replaced_by_the_default() -> None:
    made = coordinator()
    beat(made, "a", server_assignor="range")
    made.settings = attrs.evolve(made.settings, consumer_assignors={"uniform": UniformAssignor()})
    made.restart()
    assert beat(made, "b").member_epoch == 3


# Records


def test_consumer_group_records_of_an_older_broker_are_read_and_removed() -> None:
    made = coordinator()
    beat(made, "a")
    made.shard.replay(
        records.ConsumerGroupPartitionMetadataKey(group_id="g"),
        records.ConsumerGroupPartitionMetadataValue(topics=[]),
    )
    made.shard.replay(
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"),
        records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=2,
            previous_member_epoch=1,
            assigned_partitions=[
                records.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(
                    topic_id=T, partitions=[0, 1]
                )
            ],
            partitions_pending_revocation=[],
        ),
    )
    assert group_of(made).members["a"].assigned == {T: {0: 2, 1: 2}}
    assert group_of(made).has_partition_metadata
    beat(made, "b")
    assert not group_of(made).has_partition_metadata


def test_consumer_group_member_state_of_a_later_broker_is_fenced() -> None:
    made = coordinator()
    beat(made, "a")
    epoch = group_of(made).group_epoch
    made.shard.replay(
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"),
        records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=1,
            previous_member_epoch=1,
            state=42,
            assigned_partitions=[],
            partitions_pending_revocation=[],
        ),
    )
    assert group_of(made).members["a"].state is MemberState.UNKNOWN
    assert beat(made, "a", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert beat(made, "a").member_epoch == epoch
    assert group_of(made).members["a"].state is MemberState.STABLE


def test_consumer_group_tombstone_of_a_missing_entry_changes_nothing() -> None:
    made = coordinator()
    for key in (
        records.ConsumerGroupMetadataKey(group_id="g"),
        records.ConsumerGroupMemberMetadataKey(group_id="g", member_id="a"),
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"),
        records.ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="a"),
        records.ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        records.ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="x"),
    ):
        made.shard.replay(key, None)
    assert not made.shard._groups
    beat(made, "a")
    made.shard.replay(
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="x"), None
    )
    made.shard.replay(records.ConsumerGroupMemberMetadataKey(group_id="g", member_id="x"), None)
    assert list(group_of(made).members) == ["a"]


def test_consumer_group_replaces_a_group_of_offsets_only() -> None:
    made = coordinator()
    made.shard.replay(
        OffsetCommitKey(group="g", topic="t", partition=0), OffsetCommitValue(offset=5)
    )
    made.shard.replay(
        records.ConsumerGroupMetadataKey(group_id="g"),
        records.ConsumerGroupMetadataValue(epoch=7),
    )
    assert group_of(made).group_epoch == 7
    made.shard.replay(GroupMetadataKey(group="g"), GroupMetadataValue(protocol_type="consumer"))
    assert not isinstance(made.shard._groups["g"], ConsumerGroup)


def test_consumer_group_restart_keeps_its_state() -> None:
    made = coordinator()
    beat(made, "a")
    beat(made, "b", instance_id="i", rack_id="r")
    beat(made, "c", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    before = group_of(made)
    made.restart()
    after = group_of(made)
    for field in (
        "members",
        "static_members",
        "target",
        "group_epoch",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "metadata_hash",
        "_partition_epochs",
    ):
        assert getattr(after, field) == getattr(before, field), field
    assert after.subscriptions.resolved == before.subscriptions.resolved


def test_regex_resolution_is_requested_once_until_answered() -> None:
    made = coordinator()
    made.holds_regexes = True
    beat(made, "a", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    beat(made, "b", subscribed_topic_names=None, subscribed_topic_regex="u.*")
    beat(made, "c", subscribed_topic_names=None, subscribed_topic_regex="u.*")
    (wanted,) = made.wanted
    assert (wanted.group_id, wanted.regexes) == ("g", frozenset({"t.*"}))
    assert wanted.caller.client_id == "c"
    # Its members have nothing until then.
    assert group_of(made).subscriptions.resolved == {}
    made.resolve_regexes()
    assert group_of(made).subscriptions.resolved["t.*"].topics == {"t"}
    # The expressions that came meanwhile are resolved with the next heartbeat that may ask.
    made.now_ms += 10_001
    beat(made, "b", group_of(made).members["b"].member_epoch)
    (wanted,) = made.wanted
    assert wanted.regexes == {"t.*", "u.*"}


def test_regex_resolution_for_removed_members_is_dropped() -> None:
    made = coordinator()
    made.holds_regexes = True
    beat(made, "a", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    beat(made, "b")
    beat(made, "a", -1)
    epoch = group_of(made).group_epoch
    made.resolve_regexes()
    assert group_of(made).subscriptions.resolved == {}
    assert group_of(made).group_epoch == epoch
    beat(made, "c", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    assert len(made.wanted) == 1


def test_regex_resolution_is_requested_again_by_a_new_leader() -> None:
    made = coordinator()
    made.holds_regexes = True
    beat(made, "a", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    made.restart()
    beat(made, "a", group_of(made).members["a"].member_epoch)
    assert [wanted.regexes for wanted in made.wanted] == [{"t.*"}]


# Transactions


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": "a", "generation_id": 2}, None),
        ({"member_id": "", "generation_id": -1}, None),
        ({"member_id": "a", "generation_id": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "x", "generation_id": 2}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "a", "generation_id": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "a", "generation_id": 1, "topic": "u"}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_transactional_commit_needs_the_members_epoch(
    fields: dict[str, Any], code: ErrorCode | None
) -> None:
    made = coordinator()
    beat(made, "a")
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
        name=fields.pop("topic", "t"),
        partitions=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=0, committed_offset=1
            )
        ],
    )
    request = TxnOffsetCommitRequest(group_id="g", topics=[topic], **fields)
    if code is None:
        out = made.shard.commit_transactional_offsets(request, made.now_ms, token="t")
        assert len(out.records) == 1
        return
    with pytest.raises(KafkaError) as refusal:
        made.shard.commit_transactional_offsets(request, made.now_ms, token="t")
    assert refusal.value.code is code


# Causes


def test_rebalance_history_keeps_the_last_causes_of_groups_that_exist() -> None:
    history = RebalanceHistory()
    for number in range(15):
        history.note("g", number, number, f"reason {number} ä")
    causes = history.of("g")
    assert [cause.epoch for cause in causes] == list(range(5, 15))
    history.retain({"g"})
    assert history.of("g") == causes
    history.retain({"other"})
    assert history.of("g") == ()
