"""The answer to DescribeQuorum: the leader of the metadata log, and its replicas' progress."""

from barnabas.cluster.metadata.image import METADATA_TOPIC
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from barnabas.protocol.types import ZERO_UUID

Partition = DescribeQuorumResponse.PartitionData
ReplicaState = DescribeQuorumResponse.ReplicaState

_DIRECTORIES_SINCE = 2


def describe_quorum(
    core: RaftCore, request: DescribeQuorumRequest, version: int, now_ms: int
) -> DescribeQuorumResponse:
    """Describe `__cluster_metadata-0`, which must be the only partition in the request.

    As `KafkaRaftClient#handleDescribeQuorumRequest`: only the leader knows the progress of the
    other replicas, so any other replica answers NOT_LEADER_OR_FOLLOWER. Unknown values are -1.
    """
    asked = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    if not core.is_leader:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = Partition(
            partition_index=0,
            error_code=code,
            error_message="For requests intended only for the leader, this error indicates that "
            "the broker is not the current leader. For requests intended for any replica, this "
            "error indicates that the broker is not a replica of the topic partition.",
        )
        return _response(partition)
    response = _response(_metadata_partition(core, version, now_ms))
    if version >= _DIRECTORIES_SINCE:
        response.nodes = [
            DescribeQuorumResponse.Node(
                node_id=voter.key.id,
                listeners=[
                    DescribeQuorumResponse.Listener(name=p.name, host=p.host, port=p.port)
                    for p in voter.endpoints
                ],
            )
            for voter in core.voters
        ]
    return response


def _response(partition: Partition) -> DescribeQuorumResponse:
    topic = DescribeQuorumResponse.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumResponse(topics=[topic])


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponse.TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    Partition(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="This server does not host this topic-partition.",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _metadata_partition(core: RaftCore, version: int, now_ms: int) -> Partition:
    return Partition(
        partition_index=0,
        leader_id=core.local.key.id,
        leader_epoch=core.epoch,
        high_watermark=core.leader_high_watermark,
        current_voters=[
            _replica_state(core, key, version, now_ms) for key in core.voters.replica_keys
        ],
        observers=[_replica_state(core, key, version, now_ms) for key in core.observers(now_ms)],
    )


def _replica_state(core: RaftCore, key: ReplicaKey, version: int, now_ms: int) -> ReplicaState:
    state = ReplicaState(
        replica_id=key.id,
        replica_directory_id=key.directory_id if version >= _DIRECTORIES_SINCE else ZERO_UUID,
    )
    if key.id == core.local.key.id:
        state.log_end_offset = core.log_end_offset
        state.last_fetch_timestamp = state.last_caught_up_timestamp = now_ms
        return state
    progress = core.progress_of(key)
    state.log_end_offset = progress.end_offset
    state.last_fetch_timestamp = progress.fetched_ms if progress.end_offset >= 0 else -1
    state.last_caught_up_timestamp = progress.caught_up_ms
    return state
