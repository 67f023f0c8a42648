"""Every served api at every version, as raw requests: fields and error codes on either server.

Clients use the newest version they support, so clients in other languages and older tools use the
others. Each test sends one plain request at each version that Kafka 4.3 serves and decodes the
whole response.
"""

import time

import pytest

from barnabas.protocol.apis import api_by_name
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import read_header
from barnabas.protocol.batches.record_decoding import Record, read_records
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.types import ZERO_UUID
from compat_tests import wire

PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def every_version(name: str) -> pytest.MarkDecorator:
    """Parametrize a test over the served versions of an api, without unstable ones."""
    api = api_by_name(name)
    newest = min(api.max_version, 5) if name == "InitProducerId" else api.max_version
    return pytest.mark.parametrize("version", range(api.min_version, newest + 1))


def batch(values: list[bytes], timestamp: int = 1_700_000_000_000) -> bytes:
    records = [
        Record(offset=i, timestamp=timestamp + i, key=None, value=value)
        for i, value in enumerate(values)
    ]
    return bytes(build_batch(records))


def topic_id(bootstrap: str, topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    return wire.call(bootstrap, request, 13).topics[0].topic_id


def produce_request(version: int, *, topic: dict, records: bytes, acks: int = -1):
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    data = ProduceRequest.TopicProduceData(partition_data=[partition], **topic)
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data])


def fill(bootstrap: str, topic: str, values: list[bytes]) -> None:
    request = produce_request(12, topic={"name": topic}, records=batch(values))
    answer = wire.call(bootstrap, request, 12)
    assert answer.responses[0].partition_responses[0].error_code == 0


def named(bootstrap: str, topic: str, version: int, *, ids_since: int, name: str = "name") -> dict:
    """Identify a topic as the version does: by id in the newest, by name before."""
    if version >= ids_since:
        return {"topic_id": topic_id(bootstrap, topic)}
    return {name: topic}


@every_version("ApiVersions")
def test_api_versions_lists_the_served_apis(bootstrap, version) -> None:
    said = {"client_software_name": "wire", "client_software_version": "1"} if version >= 3 else {}
    answer = wire.call(bootstrap, ApiVersionsRequest(**said), version)
    assert answer.error_code == 0
    served = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    assert served[0] == (0, 13)
    assert served[1][0] == 4
    assert served[22] == (0, 5)
    assert served[18] == (0, 4)
    if version >= 3:
        features = {feature.name: feature for feature in answer.finalized_features}
        assert "metadata.version" in features
        assert answer.finalized_features_epoch >= 0
        supported = {feature.name for feature in answer.supported_features}
        # A feature whose minimum level is 0 is omitted before version 4.
        assert version == 3 or set(features) <= supported


@every_version("Metadata")
def test_metadata_describes_a_topic_by_name(bootstrap, topics, version) -> None:
    topic = topics.create("meta", partitions=2)
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    answer = wire.call(bootstrap, request, version)
    (found,) = answer.topics
    assert (found.error_code, found.name) == (0, topic)
    assert sorted(p.partition_index for p in found.partitions) == [0, 1]
    (broker,) = answer.brokers
    assert f"{broker.host}:{broker.port}" == bootstrap
    assert all(p.leader_id == broker.node_id for p in found.partitions)
    assert all(p.replica_nodes == p.isr_nodes == [broker.node_id] for p in found.partitions)
    if version >= 1:
        assert answer.controller_id == broker.node_id
    if version >= 2:
        assert len(answer.cluster_id) == 22
    if version >= 10:
        assert found.topic_id != ZERO_UUID


@every_version("Metadata")
def test_metadata_without_topics_gives_all_or_none(bootstrap, topics, version) -> None:
    topic = topics.create("meta")
    everything = [] if version == 0 else None
    answer = wire.call(bootstrap, MetadataRequest(topics=everything), version)
    assert topic in {found.name for found in answer.topics}
    if version >= 1:
        assert wire.call(bootstrap, MetadataRequest(topics=[]), version).topics == []


@every_version("Metadata")
def test_metadata_creates_missing_topics_only_on_request(bootstrap, unique, version) -> None:
    topic = unique("meta-missing")
    wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
    quiet = {"allow_auto_topic_creation": False} if version >= 4 else {}
    answer = wire.call(bootstrap, MetadataRequest(topics=wanted, **quiet), version)
    # Apache Kafka creates the topic after its response, barnabas before.
    expected = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
    if version < 4:
        expected.add(ErrorCode.NONE)
    assert answer.topics[0].error_code in expected
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

    def exists(answer: MetadataResponse) -> bool:
        return answer.topics[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    if version < 4:
        wire.retry(bootstrap, request, 4, exists)
    else:
        time.sleep(0.1)
        assert not exists(wire.call(bootstrap, request, 4))


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_finds_a_topic_by_id(bootstrap, topics, version) -> None:
    topic = topics.create("meta")
    by_id = MetadataRequest.MetadataRequestTopic
    known = by_id(topic_id=topic_id(bootstrap, topic), name=None)
    unknown = by_id(topic_id=type(known.topic_id)(bytes(range(16))), name=None)
    answer = wire.call(bootstrap, MetadataRequest(topics=[known, unknown]), version)
    found = {entry.name: entry.error_code for entry in answer.topics}
    assert found == {topic: 0, None: ErrorCode.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_before_v12_refuses_topic_ids(bootstrap, topics, version) -> None:
    topic = topics.create("meta")
    known = topic_id(bootstrap, topic)
    for name in (None, topic):
        wanted = MetadataRequest.MetadataRequestTopic(topic_id=known, name=name)
        answer = wire.call(bootstrap, MetadataRequest(topics=[wanted]), version)
        found = [(each.name, each.error_code, each.partitions) for each in answer.topics]
        assert found == [(name or "", ErrorCode.INVALID_REQUEST, [])]
        assert answer.brokers == []


@every_version("Produce")
def test_produce_appends_and_returns_the_offset(bootstrap, topics, version) -> None:
    topic = topics.create("produce")
    where = named(bootstrap, topic, version, ids_since=13)
    for expected in (0, 3):
        request = produce_request(version, topic=where, records=batch([b"a", b"b", b"c"]))
        (answer,) = wire.call(bootstrap, request, version).responses
        (partition,) = answer.partition_responses
        assert (partition.error_code, partition.base_offset) == (0, expected)
        assert partition.log_append_time_ms == -1
        if version >= 5:
            assert partition.log_start_offset == 0


@every_version("Produce")
def test_produce_without_acks_sends_no_answer(bootstrap, topics, version) -> None:
    topic = topics.create("produce")
    where = named(bootstrap, topic, version, ids_since=13)
    with wire.Connection(bootstrap) as connection:
        silent = produce_request(version, topic=where, records=batch([b"a"]), acks=0)
        connection.send(silent, version)
        loud = produce_request(version, topic=where, records=batch([b"a"]))
        (answer,) = connection.call(loud, version).responses
    assert answer.partition_responses[0].base_offset == 1


def fetch_request(version: int, where: dict, offset: int, **settings: int) -> FetchRequest:
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1_000_000
    )
    topic = FetchRequest.FetchTopic(partitions=[partition], **where)
    limits = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1_000_000, **settings}
    return FetchRequest(topics=[topic], **limits)


@every_version("Fetch")
def test_fetch_reads_from_an_offset(bootstrap, topics, version) -> None:
    topic = topics.create("fetch")
    fill(bootstrap, topic, [b"a", b"b"])
    fill(bootstrap, topic, [b"c"])
    where = named(bootstrap, topic, version, ids_since=13, name="topic")
    (answer,) = wire.call(bootstrap, fetch_request(version, where, 2), version).responses
    (partition,) = answer.partitions
    assert (partition.error_code, partition.high_watermark) == (0, 3)
    assert partition.last_stable_offset == 3
    head = read_header(partition.records)
    assert head.base_offset == 2
    (only,) = read_records(partition.records, 0, head)
    assert (only.offset, only.value) == (2, b"c")


@every_version("Fetch")
def test_fetch_at_the_end_waits_and_out_of_range_is_refused(bootstrap, topics, version) -> None:
    topic = topics.create("fetch")
    fill(bootstrap, topic, [b"a"])
    where = named(bootstrap, topic, version, ids_since=13, name="topic")
    started = time.monotonic()
    request = fetch_request(version, where, 1, max_wait_ms=300)
    (answer,) = wire.call(bootstrap, request, version).responses
    assert time.monotonic() - started >= 0.25
    assert answer.partitions[0].error_code == 0
    assert not answer.partitions[0].records
    (answer,) = wire.call(bootstrap, fetch_request(version, where, 9), version).responses
    assert answer.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.partitions[0].high_watermark == -1


@pytest.mark.parametrize("version", [7, 12, 17, 18])
def test_fetch_session_returns_only_changed_partitions(bootstrap, topics, version) -> None:
    topic = topics.create("session")
    fill(bootstrap, topic, [b"a"])
    where = named(bootstrap, topic, version, ids_since=13, name="topic")
    with wire.Connection(bootstrap) as connection:

        def fetch(epoch: int, session: int, offset: int | None) -> object:
            settings = {"session_id": session, "session_epoch": epoch}
            request = fetch_request(version, where, offset or 0, **settings)
            if offset is None:
                request.topics = []
            return connection.call(request, version)

        first = fetch(0, 0, 0)
        assert first.session_id > 0
        assert len(first.responses) == 1
        moved = fetch(1, first.session_id, 1)
        assert (moved.error_code, moved.responses) == (0, [])
        fill(bootstrap, topic, [b"b"])
        news = fetch(2, first.session_id, None)
        assert len(news.responses) == 1
        assert read_header(news.responses[0].partitions[0].records).base_offset == 1
        wrong = fetch(9, first.session_id, None)
        assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        unknown = fetch(3, 2_000_000_000, None)
        assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@every_version("ListOffsets")
def test_list_offsets_finds_ends_and_times(bootstrap, topics, version) -> None:
    topic = topics.create("offsets")
    fill(bootstrap, topic, [b"a", b"b", b"c"])

    def offset(timestamp: int) -> tuple[int, int, int]:
        partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        wanted = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[wanted])
        found = wire.call(bootstrap, request, version).topics[0].partitions[0]
        return found.error_code, found.timestamp, found.offset

    assert offset(-1) == (0, -1, 3)
    assert offset(-2) == (0, -1, 0)
    assert offset(1_700_000_000_001) == (0, 1_700_000_000_001, 1)
    assert offset(1_800_000_000_000) == (0, -1, -1)
    if version >= 7:
        assert offset(-3) == (0, 1_700_000_000_002, 2)
    if version >= 8:
        assert offset(-4) == (0, -1, 0)
    if version >= 9:
        assert offset(-5) == (0, -1, -1)


@every_version("OffsetForLeaderEpoch")
def test_offset_for_leader_epoch_returns_the_end_of_an_epoch(bootstrap, topics, version) -> None:
    topic = topics.create("epochs")
    fill(bootstrap, topic, [b"a", b"b"])

    def end(epoch: int) -> tuple[int, int, int]:
        partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition=0, leader_epoch=epoch
        )
        wanted = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
            topic=topic, partitions=[partition]
        )
        consumer = {"replica_id": -1} if version >= 3 else {}
        request = OffsetForLeaderEpochRequest(topics=[wanted], **consumer)
        found = wire.call(bootstrap, request, version).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert end(0) == (0, 0, 2)
    assert end(7) == (0, -1, -1)


def coordinator_ready(bootstrap: str, group: str) -> None:
    """Wait until the group's coordinator answers, as clients do."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    wire.retry(bootstrap, request, 4, lambda answer: answer.coordinators[0].error_code == 0)
    wire.retry(
        bootstrap,
        HeartbeatRequest(group_id=group, generation_id=-1, member_id=""),
        3,
        lambda answer: answer.error_code not in PASSING,
    )


@every_version("FindCoordinator")
def test_a_groups_coordinator_is_found(bootstrap, unique, version) -> None:
    group = unique("g")
    coordinator_ready(bootstrap, group)
    if version >= 4:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group, group + "2"])
        found = wire.call(bootstrap, request, version).coordinators
        assert [entry.key for entry in found] == [group, group + "2"]
    else:
        found = [wire.call(bootstrap, FindCoordinatorRequest(key=group), version)]
    assert {entry.error_code for entry in found} == {0}
    assert {f"{entry.host}:{entry.port}" for entry in found} == {bootstrap}


def join(connection: wire.Connection, group: str, version: int) -> object:
    """Join as the only member; use the member id of a MEMBER_ID_REQUIRED response.

    The subscription format is private to protocol types other than "consumer".
    """
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"subscription")
    settings = {"group_id": group, "session_timeout_ms": 10_000, "protocol_type": "wire"}
    if version >= 1:
        settings["rebalance_timeout_ms"] = 10_000
    request = JoinGroupRequest(member_id="", protocols=[protocol], **settings)
    answer = connection.call(request, version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        request = JoinGroupRequest(member_id=answer.member_id, protocols=[protocol], **settings)
        answer = connection.call(request, version)
    assert answer.error_code == 0
    return answer


@every_version("JoinGroup")
def test_a_member_joins_syncs_beats_and_leaves(bootstrap, unique, version) -> None:
    group = unique("g")
    coordinator_ready(bootstrap, group)
    with wire.Connection(bootstrap) as connection:
        joined = join(connection, group, version)
        assert (joined.generation_id, joined.protocol_name) == (1, "range")
        assert joined.leader == joined.member_id
        assert [bytes(member.metadata) for member in joined.members] == [b"subscription"]
        me = {"group_id": group, "generation_id": 1, "member_id": joined.member_id}
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=joined.member_id, assignment=b"assigned"
        )
        sync_version = min(version, 5)
        kind = {"protocol_type": "wire", "protocol_name": "range"} if sync_version >= 5 else {}
        request = SyncGroupRequest(assignments=[assignment], **me, **kind)
        synced = connection.call(request, sync_version)
        assert (synced.error_code, bytes(synced.assignment)) == (0, b"assigned")
        beat_version = min(version, 4)
        assert connection.call(HeartbeatRequest(**me), beat_version).error_code == 0
        stale = HeartbeatRequest(**{**me, "generation_id": 9})
        assert connection.call(stale, beat_version).error_code == ErrorCode.ILLEGAL_GENERATION
        strange = HeartbeatRequest(**{**me, "member_id": "nobody"})
        assert connection.call(strange, beat_version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        leave_version = min(version, 5)
        if leave_version >= 3:
            member = LeaveGroupRequest.MemberIdentity(member_id=joined.member_id)
            left = connection.call(
                LeaveGroupRequest(group_id=group, members=[member]), leave_version
            )
            assert [entry.error_code for entry in left.members] == [0]
        else:
            request = LeaveGroupRequest(group_id=group, member_id=joined.member_id)
            left = connection.call(request, leave_version)
        assert left.error_code == 0


def commit(bootstrap: str, group: str, topic: str, version: int, offset: int) -> int:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata="m"
    )
    where = named(bootstrap, topic, version, ids_since=10)
    wanted = OffsetCommitRequest.OffsetCommitRequestTopic(partitions=[partition], **where)
    answer = wire.call(bootstrap, OffsetCommitRequest(group_id=group, topics=[wanted]), version)
    return answer.topics[0].partitions[0].error_code


def fetched(bootstrap: str, group: str, topic: str, version: int) -> list[tuple[int, int]]:
    """Fetch the offsets of partitions 0 and 1 and return them with their error codes."""
    if version >= 8:
        where = named(bootstrap, topic, version, ids_since=10)
        wanted = OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=[0, 1], **where)
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[wanted])
        (answer,) = wire.call(bootstrap, OffsetFetchRequest(groups=[asked]), version).groups
    else:
        wanted = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])
        request = OffsetFetchRequest(group_id=group, topics=[wanted])
        answer = wire.call(bootstrap, request, version)
    return [(part.error_code, part.committed_offset) for part in answer.topics[0].partitions]


@every_version("OffsetCommit")
def test_an_offset_is_committed(bootstrap, topics, unique, version) -> None:
    topic, group = topics.create("commit", partitions=2), unique("g")
    coordinator_ready(bootstrap, group)
    assert commit(bootstrap, group, topic, version, 41) == 0
    assert fetched(bootstrap, group, topic, 7) == [(0, 41), (0, -1)]


@every_version("OffsetFetch")
def test_committed_offsets_are_fetched(bootstrap, topics, unique, version) -> None:
    topic, group = topics.create("commit", partitions=2), unique("g")
    coordinator_ready(bootstrap, group)
    assert commit(bootstrap, group, topic, 8, 17) == 0
    assert fetched(bootstrap, group, topic, version) == [(0, 17), (0, -1)]


def test_offset_fetch_returns_unknown_topics_last(bootstrap, topics, unique) -> None:
    topic, group = topics.create("commit", partitions=2), unique("g")
    coordinator_ready(bootstrap, group)
    assert commit(bootstrap, group, topic, 10, 17) == 0
    known = topic_id(bootstrap, topic)
    unknown = type(known)(bytes(range(16)))
    wanted = [
        OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=asked, partition_indexes=[0])
        for asked in (unknown, known)
    ]
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=wanted)
    (answer,) = wire.call(bootstrap, OffsetFetchRequest(groups=[asked]), 10).groups
    assert [
        (entry.topic_id, part.error_code, part.committed_offset)
        for entry in answer.topics
        for part in entry.partitions
    ] == [(known, 0, 17), (unknown, ErrorCode.UNKNOWN_TOPIC_ID, -1)]


def test_committed_offsets_are_deleted(bootstrap, topics, unique) -> None:
    topic, group = topics.create("commit", partitions=2), unique("g")
    coordinator_ready(bootstrap, group)
    commit(bootstrap, group, topic, 8, 17)
    partition = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
    wanted = OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[partition])
    answer = wire.call(bootstrap, OffsetDeleteRequest(group_id=group, topics=[wanted]), 0)
    assert answer.error_code == 0
    assert answer.topics[0].partitions[0].error_code == 0
    assert fetched(bootstrap, group, topic, 7) == [(0, -1), (0, -1)]


@every_version("DescribeGroups")
def test_a_group_is_described(bootstrap, topics, unique, version) -> None:
    topic, group = topics.create("commit"), unique("g")
    coordinator_ready(bootstrap, group)
    commit(bootstrap, group, topic, 8, 17)
    missing = unique("missing")
    request = DescribeGroupsRequest(groups=[group, missing])
    described = {entry.group_id: entry for entry in wire.call(bootstrap, request, version).groups}
    found, absent = described[group], described[missing]
    assert (found.error_code, found.group_state) == (0, "Empty")
    assert found.members == []
    assert absent.group_state == "Dead"
    assert absent.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@every_version("ListGroups")
def test_groups_are_listed(bootstrap, topics, unique, version) -> None:
    topic, group = topics.create("commit"), unique("g")
    coordinator_ready(bootstrap, group)
    commit(bootstrap, group, topic, 8, 17)
    answer = wire.call(bootstrap, ListGroupsRequest(), version)
    assert answer.error_code == 0
    found = {entry.group_id: entry for entry in answer.groups}
    assert group in found
    if version >= 4:
        assert found[group].group_state == "Empty"
    if version >= 5:
        assert found[group].group_type == "classic"


@every_version("DeleteGroups")
def test_groups_are_deleted(bootstrap, topics, unique, version) -> None:
    topic, group = topics.create("commit"), unique("g")
    coordinator_ready(bootstrap, group)
    commit(bootstrap, group, topic, 8, 17)
    request = DeleteGroupsRequest(groups_names=[group])
    assert [r.error_code for r in wire.call(bootstrap, request, version).results] == [0]
    again = wire.call(bootstrap, request, version).results
    assert [r.error_code for r in again] == [ErrorCode.GROUP_ID_NOT_FOUND]


@every_version("CreateTopics")
def test_topics_are_created_once(bootstrap, unique, version) -> None:
    topic = unique("create")
    config = CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value="5000000")
    wanted = CreateTopicsRequest.CreatableTopic(
        name=topic, num_partitions=2, replication_factor=1, configs=[config]
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    (made,) = wire.call(bootstrap, request, version).topics
    assert (made.name, made.error_code) == (topic, 0)
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (2, 1)
        assert {c.name: c.value for c in made.configs}["retention.ms"] == "5000000"
        names = [config.name for config in made.configs]
        assert names == sorted(names)
    if version >= 7:
        assert made.topic_id != ZERO_UUID
    (again,) = wire.call(bootstrap, request, version).topics
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@every_version("DeleteTopics")
def test_topics_are_deleted(bootstrap, topics, version) -> None:
    topic = topics.create("delete")
    if version >= 6:
        wanted = DeleteTopicsRequest.DeleteTopicState(name=topic)
        request = DeleteTopicsRequest(topics=[wanted], timeout_ms=10_000)
    else:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
    (answer,) = wire.call(bootstrap, request, version).responses
    assert (answer.name, answer.error_code) == (topic, 0)
    (again,) = wire.call(bootstrap, request, version).responses
    assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@every_version("CreatePartitions")
def test_partitions_are_added(bootstrap, topics, version) -> None:
    topic = topics.create("grow")
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=3, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000)
    (answer,) = wire.call(bootstrap, request, version).results
    assert (answer.name, answer.error_code) == (topic, 0)
    (again,) = wire.call(bootstrap, request, version).results
    assert again.error_code == ErrorCode.INVALID_PARTITIONS


@every_version("DeleteRecords")
def test_records_are_deleted(bootstrap, topics, version) -> None:
    topic = topics.create("trim")
    fill(bootstrap, topic, [b"a", b"b", b"c"])
    for offset, code, mark in ((2, 0, 2), (-1, 0, 3), (9, ErrorCode.OFFSET_OUT_OF_RANGE, -1)):
        partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        wanted = DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[partition])
        request = DeleteRecordsRequest(topics=[wanted], timeout_ms=5000)
        found = wire.call(bootstrap, request, version).topics[0].partitions[0]
        assert (found.error_code, found.low_watermark) == (code, mark)


@every_version("InitProducerId")
def test_init_producer_id_returns_unique_ids(bootstrap, version) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

    def given(answer: object) -> bool:
        return answer.error_code == 0

    answers = [wire.retry(bootstrap, request, version, given) for _ in range(3)]
    assert [answer.producer_epoch for answer in answers] == [0, 0, 0]
    assert len({answer.producer_id for answer in answers}) == 3


@every_version("DescribeConfigs")
def test_configurations_are_described(bootstrap, topics, version) -> None:
    topic = topics.create("config", config={"segment.bytes": "7000000"})
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name=topic, configuration_keys=["segment.bytes", "cleanup.policy"]
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (answer,) = wire.call(bootstrap, request, version).results
    assert (answer.error_code, answer.resource_name) == (0, topic)
    found = {config.name: config for config in answer.configs}
    assert set(found) == {"segment.bytes", "cleanup.policy"}
    assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == ("7000000", 1)
    assert (found["cleanup.policy"].value, found["cleanup.policy"].config_source) == ("delete", 5)
    names = [synonym.name for synonym in found["segment.bytes"].synonyms]
    assert names[0] == "segment.bytes"
    assert "log.segment.bytes" in names
    if version >= 3:
        assert (found["segment.bytes"].config_type, found["cleanup.policy"].config_type) == (3, 7)


@every_version("IncrementalAlterConfigs")
def test_configurations_are_altered_step_by_step(bootstrap, topics, version) -> None:
    topic = topics.create("config")
    for value, code in (("5000", 0), ("none", ErrorCode.INVALID_CONFIG)):
        change = IncrementalAlterConfigsRequest.AlterableConfig(
            name="flush.messages", config_operation=0, value=value
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=2, resource_name=topic, configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (answer,) = wire.call(bootstrap, request, version).responses
        assert (answer.error_code, answer.resource_name) == (code, topic)


@every_version("AlterConfigs")
def test_configurations_are_replaced(bootstrap, topics, unique, version) -> None:
    topic = topics.create("config")
    for name, code in ((topic, 0), (unique("none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        change = AlterConfigsRequest.AlterableConfig(name="flush.messages", value="5000")
        resource = AlterConfigsRequest.AlterConfigsResource(
            resource_type=2, resource_name=name, configs=[change]
        )
        (answer,) = wire.call(
            bootstrap, AlterConfigsRequest(resources=[resource]), version
        ).responses
        assert (answer.error_code, answer.resource_name) == (code, name)


@every_version("DescribeCluster")
def test_the_cluster_is_described(bootstrap, version) -> None:
    answer = wire.call(bootstrap, DescribeClusterRequest(), version)
    assert answer.error_code == 0
    (broker,) = answer.brokers
    assert f"{broker.host}:{broker.port}" == bootstrap
    assert answer.controller_id == broker.broker_id
    assert len(answer.cluster_id) == 22


def test_topic_partitions_are_described_in_pages(bootstrap, topics, unique) -> None:
    topic = topics.create("pages", partitions=5)
    missing = unique("zzz-missing")
    wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in (topic, missing)]
    request = DescribeTopicPartitionsRequest(topics=wanted, response_partition_limit=3)
    answer = wire.call(bootstrap, request, 0)
    assert [p.partition_index for p in answer.topics[0].partitions] == [0, 1, 2]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == (topic, 3)
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name=topic, partition_index=3)
    request = DescribeTopicPartitionsRequest(topics=wanted, cursor=cursor)
    answer = wire.call(bootstrap, request, 0)
    assert [p.partition_index for p in answer.topics[0].partitions] == [3, 4]
    assert answer.topics[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.next_cursor is None


@every_version("DescribeLogDirs")
def test_log_directories_are_described(bootstrap, topics, version) -> None:
    topic = topics.create("dirs")
    fill(bootstrap, topic, [b"a"])
    wanted = DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[0])
    answer = wire.call(bootstrap, DescribeLogDirsRequest(topics=[wanted]), version)
    (directory,) = answer.results
    assert directory.error_code == 0
    (found,) = directory.topics
    assert found.name == topic
    assert found.partitions[0].partition_size == len(batch([b"a"]))
    if version >= 4:
        assert directory.total_bytes > directory.usable_bytes > 0


def test_list_partition_reassignments_is_empty(bootstrap) -> None:
    answer = wire.call(bootstrap, ListPartitionReassignmentsRequest(topics=None), 0)
    assert (answer.error_code, answer.topics) == (0, [])
