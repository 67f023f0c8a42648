"""The consumer protocol (KIP-848) in raw requests: heartbeats of test members, and the responses.

Apache Kafka passes every test.
"""

import itertools
import shutil
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.types import Uuid
from compat_tests import jars, wire
from compat_tests.conftest import Topics
from compat_tests.servers import KINDS, ServerProcess

# Test members send heartbeats only explicitly, and targets are computed without delay.
QUICK_GROUPS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "20000",
    "group.min.session.timeout.ms": "1000",
}
RETRIABLE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_numbers = itertools.count(1)


def quick_server(start: Callable[..., ServerProcess]) -> ServerProcess:
    """A server whose group coordinator is ready; the first request for it creates its topic."""
    server = start(QUICK_GROUPS)

    def found(answer) -> bool:
        return all(not one.error_code for one in answer.coordinators)

    wire.retry(server.bootstrap, FindCoordinatorRequest(coordinator_keys=["g"]), 6, found)
    return server


@pytest.fixture(scope="module")
def quick(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return quick_server(start_server)


@pytest.fixture
def at(quick: ServerProcess) -> str:
    return quick.bootstrap


@pytest.fixture
def group(unique) -> str:
    return unique("group")


@pytest.fixture
def created(at: str, unique) -> Topics:
    return Topics(AdminClient({"bootstrap.servers": at}), at, unique)


def topic_id(at: str, name: str) -> Uuid:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
    return wire.call(at, request, 12).topics[0].topic_id


class Member:
    """A member of the consumer protocol that applies each response."""

    def __init__(self, at: str, group: str, *, instance: str | None = None) -> None:
        self.at = at
        self.group = group
        self.member_id = f"member-{next(_numbers)}"
        self.instance = instance
        self.epoch = 0
        self.owned: dict[Uuid, list[int]] | None = None

    def ask(self, version: int = 1, **fields) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        answer = wire.call(self.at, request, version)
        while ErrorCode(answer.error_code) in RETRIABLE:
            time.sleep(0.1)
            answer = wire.call(self.at, request, version)
        return answer

    def beat(self, **fields) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat that must succeed."""
        answer = self.ask(**fields)
        assert not answer.error_code, (ErrorCode(answer.error_code), answer.error_message)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {t.topic_id: t.partitions for t in answer.assignment.topic_partitions}
        return answer

    def join(self, *topics: str, **fields) -> ConsumerGroupHeartbeatResponse:
        self.epoch = 0
        given = {"subscribed_topic_names": list(topics), **fields}
        return self.beat(rebalance_timeout_ms=30_000, topic_partitions=[], **given)

    def has(self, owned: dict[Uuid, list[int]] | None = None) -> ConsumerGroupHeartbeatResponse:
        """Report the owned partitions: the last assignment, or the given one."""
        owned = self.owned if owned is None else owned
        held = ConsumerGroupHeartbeatRequest.TopicPartitions
        partitions = [held(topic_id=t, partitions=p) for t, p in (owned or {}).items() if p]
        return self.beat(topic_partitions=partitions)

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.ask(member_epoch=epoch)

    @property
    def partitions(self) -> list[int]:
        return sorted(p for partitions in (self.owned or {}).values() for p in partitions)


def refused(answer, code: ErrorCode, message: str | None = None) -> None:
    assert ErrorCode(answer.error_code) is code, (ErrorCode(answer.error_code), answer)
    if message is not None:
        assert answer.error_message == message


def describe(at: str, group: str) -> ConsumerGroupDescribeResponse.DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    return wire.call(at, request, 1).groups[0]


def settle(members: list[Member], until: Callable[[], bool], timeout_s: float = 60) -> None:
    """Let every member send heartbeats and apply the responses until a condition holds."""
    deadline = time.monotonic() + timeout_s
    while not until():
        for member in members:
            member.has()
        assert time.monotonic() < deadline, [(m.epoch, m.partitions) for m in members]
        time.sleep(0.05)


def test_the_first_member_is_given_everything(at, group, created: Topics) -> None:
    topic = created.create(partitions=3)
    member = Member(at, group)
    answer = member.join(topic)
    assert (answer.member_id, answer.member_epoch) == (member.member_id, 2)
    assert answer.heartbeat_interval_ms == 500
    assert member.owned == {topic_id(at, topic): [0, 1, 2]}
    assert member.beat().assignment is None
    told = describe(at, group)
    assert (told.group_state, told.group_epoch, told.assignment_epoch) == ("Stable", 2, 2)
    assert (told.assignor_name, told.members[0].member_type) == ("uniform", 1)
    assert told.members[0].subscribed_topic_names == [topic]
    assert told.members[0].client_host == "/127.0.0.1"
    partitions = told.members[0].assignment.topic_partitions
    assert [(p.topic_name, sorted(p.partitions)) for p in partitions] == [(topic, [0, 1, 2])]
    assert told.members[0].target_assignment == told.members[0].assignment


def test_full_heartbeat_gets_a_full_response(at, group, created: Topics) -> None:
    topic = created.create(partitions=1)
    member = Member(at, group)
    member.join(topic)
    held = ConsumerGroupHeartbeatRequest.TopicPartitions
    partitions = [held(topic_id=topic_id(at, topic), partitions=[0])]
    everything = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [topic]}
    assert member.beat(topic_partitions=partitions, **everything).assignment is not None
    assert member.beat(topic_partitions=partitions).assignment is None


def test_partition_is_revoked_before_it_is_assigned(at, group, created: Topics) -> None:
    topic = created.create(partitions=4)
    here = topic_id(at, topic)
    first, second = Member(at, group), Member(at, group)
    first.join(topic)
    second.join(topic)
    # The first member still owns the whole target.
    assert (second.epoch, second.owned) == (3, {})
    told = describe(at, group)
    assert told.group_state == "Reconciling"
    answer = first.beat()
    assert answer.assignment is not None
    kept = first.partitions
    assert (first.epoch, len(kept)) == (2, 2)
    second.has()
    assert second.owned == {}
    # It does not report its partitions, so it may still own them.
    first.beat()
    second.has()
    assert (first.epoch, second.owned) == (2, {})
    first.has({here: kept})
    assert first.epoch == 3
    second.has()
    assert (second.epoch, second.partitions) == (3, sorted({0, 1, 2, 3} - set(kept)))
    assert describe(at, group).group_state == "Stable"


def test_a_member_that_leaves_is_followed(at, group, created: Topics) -> None:
    topic = created.create(partitions=2)
    first, second = Member(at, group), Member(at, group)
    first.join(topic)
    second.join(topic)
    settle([first, second], lambda: len(first.partitions) == len(second.partitions) == 1)
    answer = second.leave()
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, second.member_id, -1)
    assert describe(at, group).group_state == "Assigning"
    settle([first], lambda: first.partitions == [0, 1])
    assert first.epoch == 4
    refused(
        second.leave(),
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {second.member_id} is not a member of group {group}.",
    )
    first.leave()
    told = describe(at, group)
    assert (told.group_state, told.group_epoch, told.members) == ("Empty", 5, [])


def test_stale_and_future_epochs_are_fenced(at, group, created: Topics) -> None:
    topic = created.create(partitions=2)
    first, second = Member(at, group), Member(at, group)
    first.join(topic)
    refused(first.ask(member_epoch=7), ErrorCode.FENCED_MEMBER_EPOCH)
    refused(first.ask(member_epoch=1), ErrorCode.FENCED_MEMBER_EPOCH)
    second.join(topic)
    settle([first, second], lambda: first.epoch == second.epoch == 3)
    held = ConsumerGroupHeartbeatRequest.TopicPartitions
    mine = [held(topic_id=t, partitions=p) for t, p in (first.owned or {}).items()]
    # The response with epoch 3 may have been lost: the partitions owned at that epoch are still
    # owned.
    assert not first.ask(member_epoch=2, topic_partitions=mine).error_code
    refused(first.ask(member_epoch=2), ErrorCode.FENCED_MEMBER_EPOCH)
    others = [held(topic_id=t, partitions=[0, 1]) for t in first.owned or {}]
    refused(first.ask(member_epoch=2, topic_partitions=others), ErrorCode.FENCED_MEMBER_EPOCH)
    stranger = Member(at, group)
    refused(stranger.ask(member_epoch=3), ErrorCode.UNKNOWN_MEMBER_ID)
    refused(Member(at, "nowhere").ask(member_epoch=3), ErrorCode.GROUP_ID_NOT_FOUND)


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"member_id": ""}, "INVALID_REQUEST", "MemberId can't be empty."),
        ({"group_id": " "}, "INVALID_REQUEST", "GroupId can't be empty."),
        ({"instance_id": ""}, "INVALID_REQUEST", "InstanceId can't be empty."),
        ({"rack_id": ""}, "INVALID_REQUEST", "RackId can't be empty."),
        (
            {"rebalance_timeout_ms": -1},
            "INVALID_REQUEST",
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            {"topic_partitions": None},
            "INVALID_REQUEST",
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            {"subscribed_topic_names": None},
            "INVALID_REQUEST",
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        ({"member_epoch": -3}, "INVALID_REQUEST", "MemberEpoch is invalid."),
        ({"member_epoch": -2}, "INVALID_REQUEST", "InstanceId can't be null."),
        (
            {"server_assignor": "magic"},
            "UNSUPPORTED_ASSIGNOR",
            "ServerAssignor magic is not supported. Supported assignors: uniform, range.",
        ),
        (
            {"subscribed_topic_regex": "(a"},
            "INVALID_REGULAR_EXPRESSION",
            None,
        ),
    ],
)
def test_invalid_heartbeat_is_refused_with_a_message(at, group, fields, code, message) -> None:
    request = {
        "rebalance_timeout_ms": 1000,
        "topic_partitions": [],
        "subscribed_topic_names": ["t"],
        **fields,
    }
    answer = Member(at, group).ask(**request)
    refused(answer, ErrorCode[code], message)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (None, 0, 0)


def test_a_member_of_v0_is_given_its_id(at, group, created: Topics) -> None:
    topic = created.create()
    request = {
        "member_id": "",
        "rebalance_timeout_ms": 1000,
        "topic_partitions": [],
        "subscribed_topic_names": [topic],
    }
    answer = Member(at, group).ask(version=0, **request)
    assert not answer.error_code
    assert Uuid.parse(answer.member_id)


def test_a_static_member_finds_its_partitions_again(at, group, created: Topics) -> None:
    topic = created.create(partitions=4)
    first, second = Member(at, group, instance="i1"), Member(at, group, instance="i2")
    first.join(topic)
    second.join(topic)
    settle([first, second], lambda: len(first.partitions) == len(second.partitions) == 2)
    had, epoch = second.partitions, describe(at, group).group_epoch
    answer = second.leave(-2)
    assert (answer.error_code, answer.member_epoch) == (0, -2)
    told = {m.instance_id: m for m in describe(at, group).members}
    assert told["i2"].member_epoch == -2
    first.beat()
    back = Member(at, group, instance="i2")
    back.join(topic)
    assert (back.partitions, back.epoch) == (had, epoch)
    assert describe(at, group).group_epoch == epoch
    refused(second.ask(member_epoch=epoch), ErrorCode.FENCED_INSTANCE_ID)
    taken = Member(at, group, instance="i1")
    refused(
        taken.ask(
            member_epoch=0,
            rebalance_timeout_ms=1000,
            topic_partitions=[],
            subscribed_topic_names=[topic],
        ),
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {taken.member_id} with instance id i1 cannot join the group because the "
        f"instance id is owned by {first.member_id} member.",
    )
    unknown = Member(at, group, instance="i9")
    refused(unknown.ask(member_epoch=3), ErrorCode.UNKNOWN_MEMBER_ID, "Instance id i9 is unknown.")
    refused(unknown.leave(), ErrorCode.UNKNOWN_MEMBER_ID, "Instance id i9 is unknown.")


def test_a_member_may_ask_for_an_assignor(at, group, created: Topics) -> None:
    topics = [created.create("a", partitions=3), created.create("b", partitions=3)]
    first, second = Member(at, group), Member(at, group)
    first.join(*topics, server_assignor="range")
    second.join(*topics, server_assignor="range")
    settle([first, second], lambda: bool(first.epoch == second.epoch == 3 and second.partitions))
    assert describe(at, group).assignor_name == "range"
    low, high = sorted((first, second), key=lambda member: member.member_id)
    assert set(map(tuple, (low.owned or {}).values())) == {(0, 1)}
    assert set(map(tuple, (high.owned or {}).values())) == {(2,)}


def test_members_that_subscribe_to_different_topics_share_fairly(at, group, created) -> None:
    wide, narrow = created.create("wide", partitions=4), created.create("narrow", partitions=4)
    first, second = Member(at, group), Member(at, group)
    first.join(wide, narrow)
    second.join(narrow)
    settle(
        [first, second],
        lambda: len(first.partitions) == len(second.partitions) == 4,
    )
    assert second.owned == {topic_id(at, narrow): [0, 1, 2, 3]}


def test_a_changed_subscription_is_followed(at, group, created: Topics) -> None:
    one, other = created.create("one"), created.create("other")
    member = Member(at, group)
    member.join(one)
    answer = member.beat(subscribed_topic_names=[other])
    assert answer.assignment is not None
    settle([member], lambda: member.owned == {topic_id(at, other): [0]})
    assert member.epoch == 3


def test_topics_that_grow_come_and_go_are_noticed(at, group, created: Topics) -> None:
    topic = created.create(partitions=1)
    member = Member(at, group)
    later = created.unique("later")
    member.join(topic, later)
    assert member.partitions == [0]
    created.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    settle([member], lambda: member.partitions == [0, 1, 2])
    assert member.epoch == 3
    created.admin.create_topics([NewTopic(later, 2, 1)])[later].result(30)
    settle([member], lambda: member.partitions == [0, 0, 1, 1, 2])
    created.admin.delete_topics([topic])[topic].result(30)
    settle([member], lambda: member.partitions == [0, 1])
    assert member.owned == {topic_id(at, later): [0, 1]}


def test_regular_expression_subscribes_to_matching_topics(at, group, created) -> None:
    prefix = created.unique("regex")
    topic = created.create(prefix, partitions=2)
    created.create(created.unique("else"))
    member = Member(at, group)
    member.join(subscribed_topic_names=None, subscribed_topic_regex=f"{prefix}.*")
    settle([member], lambda: member.owned == {topic_id(at, topic): [0, 1]})
    told = describe(at, group).members[0]
    assert (told.subscribed_topic_regex, told.subscribed_topic_names) == (f"{prefix}.*", [])
    member.beat(subscribed_topic_regex="", subscribed_topic_names=[])
    settle([member], lambda: member.owned == {})


def offsets(at: str, group: str, topic: str, partition: int, **member) -> tuple[ErrorCode, int]:
    asked = OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
    one = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[asked], **member)
    found = wire.call(at, OffsetFetchRequest(groups=[one], require_stable=True), 9).groups[0]
    if found.error_code:
        return ErrorCode(found.error_code), -1
    answer = found.topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.committed_offset


def commit(
    at: str, group: str, topic: str, partition: int, offset: int, version: int = 9, **member
) -> ErrorCode:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset
    )
    asked = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[part])
    request = OffsetCommitRequest(group_id=group, topics=[asked], **member)
    answer = wire.call(at, request, version)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_offset_commit_requires_the_current_member_epoch(at, group, created) -> None:
    topic = created.create(partitions=2)
    first, second = Member(at, group), Member(at, group)
    first.join(topic)

    def by(member: Member, epoch: int, partition: int, offset: int, version: int = 9) -> ErrorCode:
        return commit(
            at,
            group,
            topic,
            partition,
            offset,
            version,
            member_id=member.member_id,
            generation_id_or_member_epoch=epoch,
        )

    assert by(first, 2, 0, 5) is ErrorCode.NONE
    assert by(first, 3, 0, 6) is ErrorCode.STALE_MEMBER_EPOCH
    assert by(first, 1, 0, 6) is ErrorCode.STALE_MEMBER_EPOCH
    assert by(first, 2, 0, 6, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert by(Member(at, group), 2, 0, 6) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(at, group, topic, 0, 6) is ErrorCode.UNKNOWN_MEMBER_ID
    assert offsets(at, group, topic, 0) == (ErrorCode.NONE, 5)
    mine = {"member_id": first.member_id, "member_epoch": 2}
    assert offsets(at, group, topic, 0, **mine) == (ErrorCode.NONE, 5)
    stale = {**mine, "member_epoch": 1}
    assert offsets(at, group, topic, 0, **stale) == (ErrorCode.STALE_MEMBER_EPOCH, -1)
    stranger = {"member_id": "x", "member_epoch": 2}
    assert offsets(at, group, topic, 0, **stranger) == (ErrorCode.UNKNOWN_MEMBER_ID, -1)
    second.join(topic)
    settle([first, second], lambda: first.epoch == second.epoch == 3 and bool(second.partitions))
    (kept,) = first.partitions
    # A previous epoch is valid only for the partitions that the member has had since then.
    assert by(first, 2, kept, 7) is ErrorCode.NONE
    assert by(first, 2, 1 - kept, 8) is ErrorCode.STALE_MEMBER_EPOCH
    assert by(second, 2, 1 - kept, 8) is ErrorCode.STALE_MEMBER_EPOCH
    first.leave()
    second.leave()
    assert commit(at, group, topic, 0, 9) is ErrorCode.NONE
    assert offsets(at, group, topic, 0) == (ErrorCode.NONE, 9)


def test_groups_are_listed_by_type_and_state_and_deleted(at, group, created: Topics) -> None:
    topic = created.create()
    member = Member(at, group)
    member.join(topic)

    def listed(states: list[str], types: list[str]) -> set[tuple[str, str, str, str]]:
        answer = wire.call(at, ListGroupsRequest(states_filter=states, types_filter=types), 5)
        return {
            (one.group_id, one.protocol_type, one.group_state, one.group_type)
            for one in answer.groups
        }

    mine = (group, "consumer", "Stable", "consumer")
    assert mine in listed([], [])
    assert mine in listed(["stable"], ["Consumer"])
    assert mine not in listed(["Empty"], [])
    assert mine not in listed([], ["classic"])
    described = wire.call(at, DescribeGroupsRequest(groups=[group]), 6).groups[0]
    assert ErrorCode(described.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == f"Group {group} is not a classic group."
    assert wire.call(at, DescribeGroupsRequest(groups=[group]), 5).groups[0].group_state == "Dead"
    missing = describe(at, "nowhere")
    assert ErrorCode(missing.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
    assert missing.error_message == "Group nowhere not found."
    deleted = wire.call(at, DeleteGroupsRequest(groups_names=[group]), 2).results[0]
    assert ErrorCode(deleted.error_code) is ErrorCode.NON_EMPTY_GROUP
    member.leave()
    deleted = wire.call(at, DeleteGroupsRequest(groups_names=[group]), 2).results[0]
    assert not deleted.error_code
    assert describe(at, group).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_group_configuration_overrides_the_broker(at, group, created: Topics) -> None:
    def alter(name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        created.admin.incremental_alter_configs([resource])[resource].result(30)

    topic = created.create()
    alter("consumer.heartbeat.interval.ms", "700")
    alter("consumer.session.timeout.ms", "1500")
    resource = ConfigResource(ResourceType.GROUP, group)
    told = created.admin.describe_configs([resource])[resource].result(30)
    assert told["consumer.heartbeat.interval.ms"].value == "700"
    assert told["consumer.session.timeout.ms"].value == "1500"
    member = Member(at, group)
    assert member.join(topic).heartbeat_interval_ms == 700
    deadline = time.monotonic() + 60  # the defaults are 5 and 45 s
    while (answer := member.ask()).error_code == 0 and time.monotonic() < deadline:
        time.sleep(2.5)
    refused(answer, ErrorCode.UNKNOWN_MEMBER_ID)


# Migration


def subscription(*topics: str, version: int = 3, **fields) -> bytes:
    body = ConsumerProtocolSubscription(topics=list(topics), **fields).encode(version)
    return version.to_bytes(2, "big") + bytes(body)


def owned(data: bytes) -> dict[str, list[int]]:
    version = int.from_bytes(data[:2], "big")
    found, _ = ConsumerProtocolAssignment.decode_from(data, 2, version)
    return {t.topic: sorted(t.partitions) for t in found.assigned_partitions}


class ClassicMember:
    """A member of the classic protocol."""

    def __init__(self, at: str, group: str, topic: str, *, instance: str | None = None) -> None:
        self.at, self.group, self.topic, self.instance = at, group, topic, instance
        self.member_id, self.generation = "", -1
        self.owned: dict[str, list[int]] = {}

    def join(self):
        held = ConsumerProtocolSubscription.TopicPartition
        partitions = [held(topic=t, partitions=p) for t, p in self.owned.items()]
        metadata = subscription(
            self.topic, owned_partitions=partitions, generation_id=self.generation
        )
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)
        request = JoinGroupRequest(
            group_id=self.group,
            member_id=self.member_id,
            group_instance_id=self.instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = wire.call(self.at, request, 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = request.member_id = answer.member_id
            answer = wire.call(self.at, request, 9)
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, assignments: dict[str, bytes] | None = None):
        given = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[given(member_id=m, assignment=a) for m, a in (assignments or {}).items()],
        )
        answer = wire.call(self.at, request, 5)
        if not answer.error_code:
            self.owned = owned(answer.assignment)
        return answer

    def beat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return ErrorCode(wire.call(self.at, request, 4).error_code)

    def follow(self) -> None:
        """Send a heartbeat; rejoin when the response requires it."""
        if self.beat() is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            self.sync()

    def take_all(self, partitions: int, user_data: bytes | None = None) -> None:
        """Join an empty group and own all partitions."""
        assert not self.join().error_code
        kept = ConsumerProtocolAssignment.TopicPartition(
            topic=self.topic, partitions=list(range(partitions))
        )
        body = ConsumerProtocolAssignment(assigned_partitions=[kept], user_data=user_data).encode(3)
        answer = self.sync({self.member_id: b"\0\3" + bytes(body)})
        assert not answer.error_code, answer


def test_a_classic_group_turns_into_a_consumer_group_and_back(at, group, created) -> None:
    topic = created.create(partitions=4)
    classic = ClassicMember(at, group, topic)
    classic.take_all(4)
    assert classic.owned == {topic: [0, 1, 2, 3]}
    assert (
        commit(
            at,
            group,
            topic,
            0,
            5,
            member_id=classic.member_id,
            generation_id_or_member_epoch=classic.generation,
        )
        is ErrorCode.NONE
    )
    member = Member(at, group)
    member.join(topic)
    assert member.epoch == classic.generation + 1
    assert member.owned == {}
    told = describe(at, group)
    assert {m.member_id: m.member_type for m in told.members} == {
        classic.member_id: 0,
        member.member_id: 1,
    }
    assert offsets(at, group, topic, 0) == (ErrorCode.NONE, 5)
    # The classic member rejoins twice: to learn which partitions to revoke, and to confirm.
    assert classic.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    answer = classic.join()
    assert (answer.error_code, answer.leader, answer.members) == (0, "", [])
    assert not classic.sync().error_code
    assert len(classic.owned[topic]) == 2
    assert classic.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    member.has()
    assert member.owned == {}
    assert not classic.join().error_code
    assert classic.generation == member.epoch
    assert not classic.sync().error_code
    assert classic.beat() is ErrorCode.NONE
    settle([member], lambda: len(member.partitions) == 2)
    assert sorted(member.partitions + classic.owned[topic]) == [0, 1, 2, 3]
    old = {"member_id": classic.member_id, "generation_id_or_member_epoch": 1}
    assert commit(at, group, topic, member.partitions[0], 6, **old) is ErrorCode.ILLEGAL_GENERATION
    member.leave()
    assert classic.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    described = wire.call(at, DescribeGroupsRequest(groups=[group]), 6).groups[0]
    assert described.group_state == "PreparingRebalance"
    classic.take_all(4)
    assert classic.owned == {topic: [0, 1, 2, 3]}
    assert wire.call(at, DescribeGroupsRequest(groups=[group]), 6).groups[0].group_state == "Stable"
    assert offsets(at, group, topic, 0) == (ErrorCode.NONE, 5)


def shares(topic: str, given: dict[ClassicMember, list[int]]) -> dict[str, bytes]:
    part = ConsumerProtocolAssignment.TopicPartition
    return {
        member.member_id: b"\0\3"
        + bytes(
            ConsumerProtocolAssignment(
                assigned_partitions=[part(topic=topic, partitions=partitions)] if partitions else []
            ).encode(3)
        )
        for member, partitions in given.items()
    }


def join_together(first: ClassicMember, second: ClassicMember) -> None:
    """The first member's join starts a rebalance and waits for the second member's."""
    joining = threading.Thread(target=first.join)
    joining.start()
    question = DescribeGroupsRequest(groups=[first.group])
    wire.retry(
        first.at,
        question,
        6,
        lambda answer: answer.groups[0].group_state == "PreparingRebalance",
    )
    second.join()
    joining.join()


@pytest.mark.barnabas_only
def test_upgrade_assigns_a_partition_only_after_its_owner_has_learned_of_the_revocation(
    at, group, created: Topics
) -> None:
    """Apache Kafka 4.3.0 uses only the assignments: it gives partitions 3 and 4 to the new member
    at once.

    Their owner still holds them then. It learns of the loss only by its SyncGroup, which is
    answered REBALANCE_IN_PROGRESS, and by the following JoinGroup.
    """
    topic = created.create(partitions=6)
    leader, other = ClassicMember(at, group, topic), ClassicMember(at, group, topic)
    leader.take_all(6)
    join_together(other, leader)
    leader.sync(shares(topic, {leader: [0, 1, 2], other: [3, 4, 5]}))
    other.sync()
    assert other.owned == {topic: [3, 4, 5]}
    # In the next generation the leader revokes them, and the other member is slow to sync.
    join_together(other, leader)
    leader.sync(shares(topic, {leader: [0, 1, 2], other: []}))
    newcomer = Member(at, group)
    newcomer.join(topic)
    assert newcomer.epoch == leader.generation + 1
    assert newcomer.partitions == []
    assert other.sync().error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def shared() -> bool:
        leader.follow()
        other.follow()
        held = [p for each in (leader, other) for p in each.owned.get(topic, [])]
        return sorted([*held, *newcomer.partitions]) == list(range(6)) and newcomer.partitions != []

    settle([newcomer], shared)


def test_group_with_a_custom_assignor_stays_classic(at, group, created: Topics) -> None:
    topic = created.create()
    classic = ClassicMember(at, group, topic)
    classic.take_all(1, user_data=b"of the assignor's own")
    refused(
        Member(at, group).ask(
            rebalance_timeout_ms=30_000, subscribed_topic_names=[topic], topic_partitions=[]
        ),
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group} to consumer group because an unsupported custom "
        "assignor is in use. Please refer to the documentation or switch to a default assignor "
        "before re-attempting the upgrade.",
    )
    assert classic.beat() is ErrorCode.NONE


def test_a_classic_member_may_join_a_consumer_group(at, group, created: Topics) -> None:
    topic = created.create(partitions=2)
    member = Member(at, group)
    member.join(topic)
    classic = ClassicMember(at, group, topic)
    answer = classic.join()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 3, "range")
    assert not classic.sync().error_code
    assert classic.owned == {}
    member.beat()
    assert classic.beat() is ErrorCode.NONE
    member.has()
    assert classic.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert not classic.join().error_code
    assert not classic.sync().error_code
    assert classic.owned == {topic: [p for p in (0, 1) if p not in member.partitions]}
    stale = ClassicMember(at, group, topic)
    stale.member_id, stale.generation = classic.member_id, 1
    assert stale.beat() is ErrorCode.ILLEGAL_GENERATION
    stale.member_id = member.member_id
    assert stale.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    leaving = LeaveGroupRequest.MemberIdentity
    request = LeaveGroupRequest(
        group_id=group,
        members=[leaving(member_id=classic.member_id, reason="done"), leaving(member_id="x")],
    )
    answer = wire.call(at, request, 5)
    assert [ErrorCode(one.error_code) for one in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    settle([member], lambda: member.partitions == [0, 1])


def test_a_static_member_may_change_its_protocol(at, group, created: Topics) -> None:
    topic = created.create(partitions=2)
    classic = ClassicMember(at, group, topic, instance="i1")
    classic.take_all(2)
    member = Member(at, group, instance="i1")
    member.join(topic)
    assert (member.partitions, member.epoch) == ([0, 1], classic.generation)
    assert classic.beat() is ErrorCode.FENCED_INSTANCE_ID
    member.leave(-2)
    back = ClassicMember(at, group, topic, instance="i1")
    answer = back.join()
    assert (answer.error_code, answer.protocol_name) == (0, "range")
    assert not back.sync().error_code
    assert back.owned == {topic: [0, 1]}
    described = wire.call(at, DescribeGroupsRequest(groups=[group]), 6).groups[0]
    assert (described.group_state, described.protocol_data) == ("Stable", "range")


def test_an_empty_group_takes_either_type(at, group, created: Topics) -> None:
    topic = created.create()
    assert commit(at, group, topic, 0, 3) is ErrorCode.NONE
    member = Member(at, group)
    assert member.join(topic).member_epoch == 2
    member.leave()
    classic = ClassicMember(at, group, topic)
    classic.take_all(1)
    leaving = LeaveGroupRequest.MemberIdentity(member_id=classic.member_id)
    assert not wire.call(at, LeaveGroupRequest(group_id=group, members=[leaving]), 5).error_code
    assert member.join(topic).member_epoch == 2
    assert offsets(at, group, topic, 0) == (ErrorCode.NONE, 3)


# Restart


def parts(told) -> list:
    """Return the members of a described group with their assignments."""
    return sorted(
        (
            m.member_id,
            m.member_epoch,
            m.member_type,
            m.instance_id or "",
            m.subscribed_topic_regex,
            sorted(
                (p.topic_name, tuple(sorted(p.partitions))) for p in m.assignment.topic_partitions
            ),
        )
        for m in told.members
    )


def test_a_group_outlives_its_coordinator(start_server, unique, group) -> None:
    server = quick_server(start_server)
    at = server.bootstrap
    created = Topics(AdminClient({"bootstrap.servers": at}), at, unique)
    topic = created.create(partitions=4)
    first, second = Member(at, group), Member(at, group, instance="i")
    first.join(topic)
    second.join(topic, subscribed_topic_regex=f"{topic}.*")
    settle([first, second], lambda: len(first.partitions) == len(second.partitions) == 2)
    before = describe(at, group)
    server.kill()
    server.start()
    wire.retry(
        at,
        ConsumerGroupDescribeRequest(group_ids=[group]),
        1,
        lambda answer: ErrorCode(answer.groups[0].error_code) not in RETRIABLE,
    )
    after = describe(at, group)

    assert parts(after) == parts(before)
    assert (after.group_epoch, after.group_state) == (before.group_epoch, before.group_state)
    assert first.has().member_epoch == before.group_epoch
    second.leave()
    settle([first], lambda: first.partitions == [0, 1, 2, 3])


@pytest.mark.barnabas_only
@jars.needed
@pytest.mark.parametrize("kinds", [("barnabas", "kafka"), ("kafka", "barnabas")], ids="-to-".join)
def test_groups_pass_from_one_server_to_the_other_on_disk(unique, group, kinds) -> None:
    first, second = (KINDS[kind](QUICK_GROUPS) for kind in kinds)
    try:
        at = quick_server(lambda _properties: (first.start(), first)[1]).bootstrap
        admin = AdminClient({"bootstrap.servers": at})
        topic = Topics(admin, at, unique).create(partitions=4)
        one, other = Member(at, group), Member(at, group, instance="i")
        one.join(topic)
        other.join(topic, subscribed_topic_regex=f"{topic}.*")
        settle([one, other], lambda: len(one.partitions) == len(other.partitions) == 2)
        mixed = f"{group}-mixed"
        classic, member = ClassicMember(at, mixed, topic), Member(at, mixed)
        classic.take_all(4)
        member.join(topic)
        for _ in range(2):
            classic.follow()
        settle([member], lambda: len(member.partitions) == 2)
        before = [describe(at, name) for name in (group, mixed)]
        first.stop()
        shutil.copytree(first.data, second.data)
        at = quick_server(lambda _properties: (second.start(), second)[1]).bootstrap
        for told in before:
            found = wire.retry(
                at,
                ConsumerGroupDescribeRequest(group_ids=[told.group_id]),
                1,
                lambda answer: ErrorCode(answer.groups[0].error_code) not in RETRIABLE,
            ).groups[0]
            assert parts(found) == parts(told)
            assert found.group_epoch == told.group_epoch
            assert found.assignment_epoch == told.assignment_epoch
        one.at = other.at = at
        one.has()
        other.leave()
        settle([one], lambda: one.partitions == [0, 1, 2, 3])
    finally:
        first.close()
        second.close()
