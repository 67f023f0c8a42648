"""Group properties, observed in the answers of the group coordinator."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.config import NodeConfig
from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.protocol.batches.batch_header import read_header
from barnabas.protocol.batches.batch_layout import CODEC_MASK
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.server.coordinators.group_service import assignors_of, group_settings
from barnabas.testing import Node
from tests.config.effects.observed import observes
from tests.config.effects.wire import (
    RETRIABLE,
    Wire,
    add_silent_follower,
    alter,
    coordinator,
    create,
    eventually,
    node_with,
)
from tests.coordinator.groups import group_harness as harness

GROUP = 32
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"


@contextmanager
def group_node(**properties: str) -> Iterator[tuple[Node, Wire]]:
    """Run a node with these properties, a topic `t`, and the coordinator of group `g` loaded."""
    config = {name.replace("_", "."): value for name, value in properties.items()}
    with node_with({"offsets.topic.num.partitions": "1", **config}) as (node, wire):
        create(wire, partitions=4)
        coordinator(wire, "g")
        yield node, wire


def join(wire: Wire, session_timeout_ms: int = 10_000) -> Any:
    """Let a new classic member join (version 3 needs no second request)."""
    request = JoinGroupRequest(
        group_id="g",
        member_id="",
        protocol_type="consumer",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=1000,
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )
    return until_loaded(wire, request, 3)


def beat(wire: Wire, member_id: str = "m1", **fields: Any) -> Any:
    """Let a member of the consumer protocol join."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        topic_partitions=[],
        **({"subscribed_topic_names": ["t"]} | fields),
    )
    return until_loaded(wire, request, 1)


def until_loaded(wire: Wire, request: Any, version: int) -> Any:
    deadline = time.monotonic() + 90
    while True:
        answer = wire.ask(request, version)
        if answer.error_code not in RETRIABLE or time.monotonic() > deadline:
            return answer
        time.sleep(0.01)


def commit(wire: Wire, metadata: str = "") -> int:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=metadata
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    deadline = time.monotonic() + 90
    while True:
        code = wire.ask(request, 8).topics[0].partitions[0].error_code
        if code not in RETRIABLE or time.monotonic() > deadline:
            return code
        time.sleep(0.01)


def members(wire: Wire) -> int:
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    return len(wire.ask(request, 0).groups[0].members)


@observes("group.min.session.timeout.ms", "group.max.session.timeout.ms")
@pytest.mark.parametrize(
    "limit", [{"group_min_session_timeout_ms": "20000"}, {"group_max_session_timeout_ms": "9000"}]
)
def test_session_timeout_outside_the_bounds_is_refused(limit: dict[str, str]) -> None:
    with group_node(**limit) as (_, wire):
        assert join(wire).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    with group_node() as (_, wire):
        assert join(wire).error_code == 0


@observes("group.initial.rebalance.delay.ms")
def test_first_rebalance_waits_for_more_members() -> None:
    def joined_within(delay_ms: int) -> float:
        with group_node(group_initial_rebalance_delay_ms=str(delay_ms)) as (_, wire):
            began = time.monotonic()
            assert join(wire).error_code == 0
            return time.monotonic() - began

    assert joined_within(900) > 0.85
    # A busy machine may delay some answers.
    assert any(joined_within(0) < 0.85 for _ in range(10))


@observes("group.max.size")
def test_member_above_the_size_of_a_classic_group_is_refused() -> None:
    with group_node(group_max_size="1", group_initial_rebalance_delay_ms="0") as (node, wire):
        assert join(wire).error_code == 0
        assert join(Wire(node.port)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@observes("offset.metadata.max.bytes")
def test_longer_metadata_of_an_offset_is_refused() -> None:
    with group_node(offset_metadata_max_bytes="5") as (_, wire):
        assert commit(wire, "12345") == 0
        assert commit(wire, "123456") == ErrorCode.OFFSET_METADATA_TOO_LARGE


@observes("offsets.commit.timeout.ms")
def test_commit_that_is_not_replicated_in_time_is_refused() -> None:
    with group_node(offsets_commit_timeout_ms="100") as (node, wire):
        assert commit(wire) == 0
        add_silent_follower(node, "__consumer_offsets")
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=2
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
        request = OffsetCommitRequest(group_id="g", topics=[topic])
        times: list[float] = []
        for _ in range(3):  # a busy machine may delay one answer for seconds
            began = time.monotonic()
            answer = wire.ask(request, 8)
            times.append(time.monotonic() - began)
            assert answer.topics[0].partitions[0].error_code != 0
    assert 0.08 < min(times) < 4, times


@observes("offsets.retention.minutes", "offsets.retention.check.interval.ms")
def test_offsets_of_an_empty_group_expire() -> None:
    """Observed with a virtual clock: the least retention is a minute."""
    for minutes, check_ms, after_ms, is_kept in (
        (1, 1000, 50_000, True),
        (1, 1000, 70_000, False),
        (3, 1000, 70_000, True),
        (1, 600_000, 70_000, True),
    ):
        config = NodeConfig.load(
            None,
            {
                "offsets.retention.minutes": str(minutes),
                "offsets.retention.check.interval.ms": str(check_ms),
            },
        )
        groups = harness.Coordinator(settings=group_settings(config, assignors_of(config)))
        groups.set_topics(t=1)
        groups.do(
            groups.shard.commit_offsets,
            harness.commit_request({("t", 0): 7}),
            9,
            groups.now_ms,
            token="commit",
        )
        groups.advance(after_ms)
        groups.do(
            lambda token, groups=groups: groups.shard.fetch_offsets(
                harness.fetch_request("t", 0), require_stable=False, token=token
            ),
            token="fetch",
        )
        (answer,) = [reply for token, reply in groups.replies if token == "fetch"]
        assert (answer.topics[0].partitions[0].committed_offset == 7) is is_kept


@observes("group.consumer.regex.refresh.interval.ms")
def test_regular_expressions_are_resolved_again_after_the_interval() -> None:
    """Observed with a virtual clock: the least interval is ten seconds."""
    for interval_ms, is_resolved in (("20000", True), ("60000", False)):
        config = NodeConfig.load(None, {"group.consumer.regex.refresh.interval.ms": interval_ms})
        groups = harness.Coordinator(settings=group_settings(config, assignors_of(config)))
        groups.set_topics(t=4)
        regex_beat(groups, 0)
        groups.advance(30_000)
        groups.holds_regexes = True
        regex_beat(groups, 0)
        assert bool(groups.wanted) is is_resolved


def regex_beat(groups: harness.Coordinator, epoch: int) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=10_000,
        subscribed_topic_regex="t.*",
        topic_partitions=[],
    )
    caller = Caller("c", version=1)
    groups.do(groups.shard.consumer_heartbeat, request, caller, "", groups.now_ms, token="t")


@observes("group.coordinator.rebalance.protocols")
def test_protocol_that_is_not_listed_is_refused() -> None:
    with group_node(group_coordinator_rebalance_protocols="classic") as (_, wire):
        assert beat(wire).error_code == ErrorCode.UNSUPPORTED_VERSION
    with group_node() as (_, wire):
        assert beat(wire).error_code == 0


@observes("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms")
def test_member_without_heartbeats_is_removed_after_the_session_timeout() -> None:
    for session_ms, is_removed in (("1000", True), ("60000", False)):
        with group_node(
            group_consumer_session_timeout_ms=session_ms,
            group_consumer_min_session_timeout_ms="1",
            group_consumer_heartbeat_interval_ms="140",
            group_consumer_min_heartbeat_interval_ms="1",
        ) as (_, wire):
            assert beat(wire).heartbeat_interval_ms == 140
            assert members(wire) == 1
            assert eventually(lambda wire=wire: members(wire) == 0, 30 if is_removed else 0.3) is (
                is_removed
            )


@observes("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")
def test_group_has_its_own_session_timeout_and_heartbeat_interval() -> None:
    with group_node(
        group_consumer_min_session_timeout_ms="1", group_consumer_min_heartbeat_interval_ms="1"
    ) as (_, wire):
        assert alter(wire, "consumer.heartbeat.interval.ms", "140", resource=(GROUP, "g")) == 0
        assert alter(wire, "consumer.session.timeout.ms", "1000", resource=(GROUP, "g")) == 0
        assert beat(wire).heartbeat_interval_ms == 140
        assert members(wire) == 1
        assert eventually(lambda: members(wire) == 0)


@observes(
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.max.assignment.interval.ms",
)
@pytest.mark.parametrize(
    ("name", "bounds", "inside", "outside"),
    [
        ("session.timeout.ms", ("40000", "50000"), "46000", ("39000", "51000")),
        ("heartbeat.interval.ms", ("4000", "6000"), "5500", ("3000", "7000")),
        ("assignment.interval.ms", ("500", "2000"), "700", ("400", "3000")),
    ],
)
def test_value_of_a_group_outside_the_bounds_is_refused(
    name: str, bounds: tuple[str, str], inside: str, outside: tuple[str, str]
) -> None:
    config = {
        f"group.consumer.{kind}.{name}": v for kind, v in zip(("min", "max"), bounds, strict=True)
    }
    with node_with(config) as (_, wire):
        codes = [
            alter(wire, f"consumer.{name}", value, resource=(GROUP, "g"))
            for value in (inside, *outside)
        ]
        assert codes == [0, 40, 40]  # INVALID_CONFIG
    with node_with({}) as (_, wire):
        within = [v for v in outside if name != "session.timeout.ms" or v != "39000"]
        codes = [alter(wire, f"consumer.{name}", v, resource=(GROUP, "g")) for v in within]
        assert 0 in codes


@observes("group.consumer.max.size")
def test_member_above_the_size_of_a_consumer_group_is_refused() -> None:
    with group_node(group_consumer_max_size="1") as (_, wire):
        assert beat(wire, "m1").error_code == 0
        assert beat(wire, "m2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@observes("group.consumer.assignors")
def test_assignor_that_is_not_listed_is_refused() -> None:
    for assignors, code in (("range", ErrorCode.UNSUPPORTED_ASSIGNOR), ("range,uniform", 0)):
        with group_node(group_consumer_assignors=assignors) as (_, wire):
            assert beat(wire, server_assignor="uniform").error_code == code


@observes("group.consumer.migration.policy")
def test_classic_group_becomes_a_consumer_group_only_by_policy() -> None:
    for policy, is_upgraded in (("disabled", False), ("upgrade", True)):
        with group_node(
            group_consumer_migration_policy=policy, group_initial_rebalance_delay_ms="0"
        ) as (node, wire):
            assert join(wire).error_code == 0
            assert (beat(Wire(node.port)).error_code == 0) is is_upgraded


@observes("group.consumer.assignment.interval.ms", dynamic=True)
@observes("consumer.assignment.interval.ms")
@pytest.mark.parametrize("way", ["broker", "dynamic", "group"])
def test_next_assignment_waits_for_the_interval(way: str) -> None:
    for interval_ms, is_assigned in (("0", True), ("15000", False)):
        broker = {"group_consumer_assignment_interval_ms": interval_ms} if way == "broker" else {}
        with group_node(**broker) as (_, wire):
            if way == "group":
                name, resource = "consumer.assignment.interval.ms", (GROUP, "g")
                assert alter(wire, name, interval_ms, resource=resource) == 0
            elif way == "dynamic":
                name = "group.consumer.assignment.interval.ms"
                assert alter(wire, name, interval_ms, resource=(4, "")) == 0
            first = beat(wire, "m1")
            assert first.assignment.topic_partitions
            epoch = beat(wire, "m2").member_epoch
            assert (epoch > first.member_epoch) is is_assigned


def internal_topic(wire: Wire, name: str) -> tuple[int, dict[str, str]]:
    """Return the partitions and the own properties of an internal topic."""
    topics = [MetadataRequest.MetadataRequestTopic(name=name)]
    (topic,) = wire.ask(MetadataRequest(topics=topics), 9).topics
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name=name)
    ]
    (result,) = wire.ask(DescribeConfigsRequest(resources=resources), 4).results
    own = {each.name: each.value for each in result.configs or () if each.config_source == 1}
    return len(topic.partitions), own


@observes("offsets.topic.num.partitions", "offsets.topic.segment.bytes")
def test_offsets_topic_has_the_given_partitions_and_segments() -> None:
    config = {"offsets.topic.num.partitions": "3", "offsets.topic.segment.bytes": "2000000"}
    with node_with(config) as (_, wire):
        assert coordinator(wire, "g") == 0
        partitions, own = internal_topic(wire, "__consumer_offsets")
        assert (partitions, own["segment.bytes"]) == (3, "2000000")


@observes("offsets.topic.replication.factor")
def test_offsets_topic_is_not_created_with_fewer_brokers_than_replicas() -> None:
    with node_with({"offsets.topic.replication.factor": "2"}) as (_, wire):
        assert coordinator(wire, "g", seconds=1) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@observes("offsets.topic.compression.codec")
def test_offsets_are_written_with_the_codec() -> None:
    for codec in (0, 1):
        with group_node(offsets_topic_compression_codec=str(codec)) as (node, wire):
            assert commit(wire) == 0
            (file,) = node.data.glob("__consumer_offsets-0/*.log")
            assert read_header(file.read_bytes(), 0).attributes & CODEC_MASK == codec
