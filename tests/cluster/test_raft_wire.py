"""The core's messages survive the way over the wire, in each version that can carry them."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum import raft_wire, snapshot_wire
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.raft_wire import FetchLimits, LeaderState
from barnabas.cluster.quorum.snapshot_wire import SnapshotBytes, SnapshotPart
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from barnabas.protocol.messages.fetch import FetchResponse as FetchResponseMessage
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid
from tests.cluster import wire_seeds
from tests.cluster.states import CLUSTER_ID, uuid

ENDPOINT = Endpoint("CONTROLLER", "localhost", 9093)
LEADER = LeaderState(3, 2, ENDPOINT)

ids = st.integers(0, 1000)
epochs = st.integers(0, 1 << 30)
offsets = st.integers(0, 1 << 60)
keys = st.builds(ReplicaKey, ids, st.builds(Uuid, st.binary(min_size=16, max_size=16)))
ends = st.builds(OffsetAndEpoch, offsets, epochs)
leaders = st.none() | ids
errors = st.sampled_from(
    [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)

UNKNOWN_CODE = 150


def carried(message: Message, version: int) -> Any:
    return type(message).decode(message.encode(version), version)


@given(ids, epochs, keys, epochs, offsets, st.booleans(), keys)
def test_vote_request_is_carried(
    to: int, epoch: int, key: ReplicaKey, last: int, end: int, pre: bool, voter: ReplicaKey
) -> None:
    sent = VoteRequest(to, epoch, key, last, end, pre, voter)
    request = carried(raft_wire.vote_request(sent, CLUSTER_ID), 2)
    assert raft_wire.read_vote_request(request, CLUSTER_ID, to) == sent


@given(epochs, leaders, st.booleans(), errors)
def test_vote_response_is_carried(
    epoch: int, leader: int | None, granted: bool, error: ErrorCode
) -> None:
    asked = VoteRequest(1, epoch, ReplicaKey(2), 0, 0, False)
    sent = VoteResponse(asked, 1, epoch, leader, granted, error)
    state = LeaderState(epoch, leader, ENDPOINT)
    response = carried(raft_wire.vote_response(sent, state), 2)
    assert raft_wire.read_vote_response(asked, response) == sent
    ports = [each.port for each in response.node_endpoints]
    assert ports == ([] if leader is None else [9093])


@given(ids, epochs, ids, keys)
def test_begin_quorum_epoch_is_carried(to: int, epoch: int, leader: int, voter: ReplicaKey) -> None:
    sent = BeginQuorumEpoch(to, epoch, leader, voter)
    request = carried(raft_wire.begin_request(sent, CLUSTER_ID, [ENDPOINT]), 1)
    assert raft_wire.read_begin_request(request, CLUSTER_ID, to) == sent
    assert [each.host for each in request.leader_endpoints] == ["localhost"]


@given(ids, epochs, ids, st.lists(keys))
def test_end_quorum_epoch_is_carried(
    to: int, epoch: int, leader: int, preferred: list[ReplicaKey]
) -> None:
    sent = EndQuorumEpoch(to, epoch, leader, tuple(preferred))
    request = raft_wire.end_request(sent, CLUSTER_ID, [ENDPOINT])
    assert raft_wire.read_end_request(carried(request, 1), CLUSTER_ID, to) == sent
    old = raft_wire.read_end_request(carried(request, 0), CLUSTER_ID, to)
    assert [each.id for each in old.preferred] == [each.id for each in preferred]


@given(epochs, keys, offsets, epochs, st.integers(-1, 1 << 60))
def test_fetch_request_is_carried(
    epoch: int, key: ReplicaKey, offset: int, last: int, high_watermark: int
) -> None:
    sent, limits = FetchRequest(None, epoch, key, offset, last), FetchLimits(10, 20, high_watermark)
    request = raft_wire.fetch_request(sent, CLUSTER_ID, limits)
    assert raft_wire.read_fetch_request(carried(request, 18), CLUSTER_ID) == (sent, limits)


def test_fetch_request_of_an_old_replica_is_not_answered_for_the_high_watermark() -> None:
    sent = FetchRequest(None, 1, ReplicaKey(2), 3, 1)
    request = raft_wire.fetch_request(sent, CLUSTER_ID, FetchLimits(10, 20, 5))
    message, limits = raft_wire.read_fetch_request(carried(request, 15), CLUSTER_ID)
    assert message == sent
    assert limits.high_watermark == (1 << 63) - 1


@given(epochs, leaders, errors, st.integers(-1, 1 << 60), st.none() | ends, st.none() | ends)
def test_fetch_response_is_carried(
    epoch: int,
    leader: int | None,
    error: ErrorCode,
    high_watermark: int,
    diverging: OffsetAndEpoch | None,
    snapshot: OffsetAndEpoch | None,
) -> None:
    sent = FetchResponse(epoch, leader, error, high_watermark, diverging, snapshot)
    state = LeaderState(epoch, leader, ENDPOINT)
    response = carried(raft_wire.fetch_response(sent, b"records", 0, state), 18)
    assert raft_wire.read_fetch_response(response) == (sent, b"records")


def test_response_with_an_unknown_error_code_is_read_as_an_unknown_server_error() -> None:
    """A later version may have more codes than this one."""
    unknown: Any = UNKNOWN_CODE
    asked = VoteRequest(1, 3, ReplicaKey(2), 0, 0, False)
    vote = raft_wire.vote_response(VoteResponse(asked, 1, 3, 2, False, unknown), LEADER)
    read = raft_wire.read_vote_response(asked, carried(vote, 2))
    assert read is not None
    assert read.error is ErrorCode.UNKNOWN_SERVER_ERROR
    fetch = raft_wire.fetch_response(FetchResponse(3, 2, unknown), b"", 0, LEADER)
    fetched = raft_wire.read_fetch_response(carried(fetch, 18))
    assert fetched is not None
    assert fetched[0].error is ErrorCode.UNKNOWN_SERVER_ERROR
    part = SnapshotPart(ReplicaKey(2), 3, OffsetAndEpoch(5, 1), 0, 100)
    answer = snapshot_wire.snapshot_response(part, SnapshotBytes(unknown, 0, b""), LEADER)
    downloaded = snapshot_wire.read_snapshot_response(part, carried(answer, 1))
    assert downloaded is not None
    assert downloaded[0].error is ErrorCode.UNKNOWN_SERVER_ERROR


@given(keys, epochs, ends, offsets, st.binary(), offsets)
def test_snapshot_part_is_carried(
    key: ReplicaKey, epoch: int, snapshot: OffsetAndEpoch, position: int, data: bytes, size: int
) -> None:
    part = SnapshotPart(key, epoch, snapshot, position, 100)
    request = carried(snapshot_wire.snapshot_request(part, CLUSTER_ID), 1)
    assert snapshot_wire.read_snapshot_request(request, CLUSTER_ID) == part
    answer = SnapshotBytes(ErrorCode.NONE, size, data)
    response = carried(snapshot_wire.snapshot_response(part, answer, LEADER), 1)
    assert snapshot_wire.read_snapshot_response(part, response) == (answer, 3, 2)
    other = part._replace(position=position + 1)
    assert snapshot_wire.read_snapshot_response(other, response) is None


def test_epoch_response_states_the_leader() -> None:
    response = raft_wire.epoch_response(BeginQuorumEpochResponse, ErrorCode.NONE, LEADER)
    assert raft_wire.read_epoch_response(carried(response, 1)) == (3, 2)
    nobody = LeaderState(3, None, None)
    response = raft_wire.epoch_response(BeginQuorumEpochResponse, ErrorCode.NONE, nobody)
    assert raft_wire.read_epoch_response(carried(response, 1)) == (3, None)
    assert raft_wire.read_epoch_response(BeginQuorumEpochResponse(error_code=104)) is None


def vote() -> Any:
    sent = VoteRequest(1, 2, ReplicaKey(2, uuid(2)), 0, 0, False)
    return raft_wire.vote_request(sent, CLUSTER_ID)


def test_request_for_another_cluster_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        raft_wire.read_vote_request(vote(), "another", 1)
    assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    unnamed = vote()
    unnamed.cluster_id = None
    assert raft_wire.read_vote_request(unnamed, "another", 1).epoch == 2


@pytest.mark.parametrize("change", ["topic", "partition", "none", "two"])
def test_request_for_another_partition_is_refused(change: str) -> None:
    request = vote()
    match change:
        case "topic":
            request.topics[0].topic_name = "other"
        case "partition":
            request.topics[0].partitions[0].partition_index = 1
        case "none":
            request.topics = []
        case _:
            request.topics *= 2
    with pytest.raises(KafkaError) as refused:
        raft_wire.read_vote_request(request, CLUSTER_ID, 1)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("old_peers", [0, 1, 2])
def test_quorum_of_seeds_works_over_bytes_and_with_old_peers(old_peers: int) -> None:
    for seed in range(old_peers, 12, 3):
        wire_seeds.run(seed)


def test_quorum_of_seeds_finds_a_field_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    read = raft_wire.read_fetch_response

    def without_divergence(response: FetchResponseMessage) -> tuple[FetchResponse, bytes] | None:
        found = read(response)
        return found and (attrs.evolve(found[0], diverging=None), found[1])

    monkeypatch.setattr(raft_wire, "read_fetch_response", without_divergence)
    with pytest.raises(AssertionError, match="HW: a committed record changed"):
        wire_seeds.run(0)
