"""DescribeQuorum reports the progress that the leader has seen, and -1 for unknown values."""

from typing import Any

import pytest

from barnabas.cluster.quorum.quorum_description import describe_quorum
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import FetchRequest
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.types import ZERO_UUID
from tests.cluster.states import uuid
from tests.cluster.test_controller_state_machine import depose, leading


def describe(core: RaftCore, now_ms: int, *, version: int = 2, partition: int = 0) -> Any:
    data = DescribeQuorumRequest
    topic = data.TopicData(
        topic_name="__cluster_metadata",
        partitions=[data.PartitionData(partition_index=partition)],
    )
    return describe_quorum(core, data(topics=[topic]), version, now_ms)


def states(replicas: Any) -> list[tuple[int, int, int, int]]:
    return [
        (
            state.replica_id,
            state.log_end_offset,
            state.last_fetch_timestamp,
            state.last_caught_up_timestamp,
        )
        for state in replicas
    ]


def test_describe_quorum_reports_each_replica_as_the_leader_knows_it() -> None:
    """Planted once: the leader's own log end and the current time for every voter."""
    core = leading(3).core
    end = core.log_end_offset
    core.propose([b"a record"], 20_000)
    key = ReplicaKey(2, uuid(2))
    core.on_fetch(FetchRequest(1, core.epoch, key, end + 1, core.epoch), 30_000)
    observer = ReplicaKey(9, uuid(9))
    core.on_fetch(FetchRequest(1, core.epoch, observer, 1, core.epoch), 31_000)
    ((partition,),) = (topic.partitions for topic in describe(core, 40_000).topics)
    assert (partition.leader_id, partition.leader_epoch) == (1, core.epoch)
    assert partition.high_watermark == core.high_watermark
    assert states(partition.current_voters) == [
        (1, end + 1, 40_000, 40_000),
        (2, end + 1, 30_000, 30_000),
        (3, end, 10_000, 10_000),
    ]
    assert states(partition.observers) == [(9, 1, 31_000, -1)]
    assert partition.observers[0].replica_directory_id == uuid(9)


def test_describe_quorum_voter_that_never_fetched_is_unknown() -> None:
    machine = leading(3)
    depose(machine)
    core = machine.core
    now_ms = 20_000
    while not core.is_leader:
        core.tick(now_ms)
        for message in machine.take_effects(now_ms).ready.messages:
            vote_of(core, message, now_ms)
    ((partition,),) = (topic.partitions for topic in describe(core, now_ms).topics)
    assert states(partition.current_voters)[1:] == [(2, -1, -1, -1), (3, -1, -1, -1)]
    assert partition.high_watermark == -1


def vote_of(core: RaftCore, message: Any, now_ms: int) -> None:
    from barnabas.cluster.quorum.raft_messages import VoteResponse

    core.on_vote_response(
        VoteResponse(message, message.to, message.epoch, None, granted=True), now_ms
    )


def test_describe_quorum_on_a_follower_is_refused() -> None:
    machine = leading(3)
    depose(machine)
    response = describe(machine.core, 1)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not response.nodes


def test_describe_quorum_of_another_partition_is_unknown() -> None:
    response = describe(leading().core, 1, partition=1)
    code = response.topics[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_quorum_has_directories_and_nodes_since_version_2(version: int) -> None:
    response = describe(leading().core, 1, version=version)
    (voter,) = response.topics[0].partitions[0].current_voters
    assert (voter.replica_directory_id == ZERO_UUID) == (version < 2)
    assert len(response.nodes) == (version >= 2)
    assert response.encode(version)
