"""EndQuorumEpoch: the quorum's leader resigns."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, string, uint16, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class EndQuorumEpochRequest(Message, api="EndQuorumEpoch"):
    """The leader that resigns, and its preferred successors."""

    class ReplicaInfo(Struct):
        candidate_id: int = int32()
        candidate_directory_id: Uuid = uuid()

    class PartitionData(Struct):
        partition_index: int = int32()
        leader_id: int = int32()
        leader_epoch: int = int32()
        preferred_successors: list[int] = array(Kind.INT32, versions="0", ignorable=True)
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = array(
            "ReplicaInfo", versions="1+", ignorable=True
        )

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[EndQuorumEpochRequest.PartitionData] = array("PartitionData")

    class LeaderEndpoint(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()

    cluster_id: str | None = string(nullable=True, default=None)
    topics: list[EndQuorumEpochRequest.TopicData] = array("TopicData")
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = array(
        "LeaderEndpoint", versions="1+", ignorable=True
    )


class EndQuorumEpochResponse(Message, api="EndQuorumEpoch"):
    """The acknowledgement of the resignation, or a later epoch."""

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        leader_id: int = int32()
        leader_epoch: int = int32()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[EndQuorumEpochResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = uint16()

    error_code: int = int16()
    topics: list[EndQuorumEpochResponse.TopicData] = array("TopicData")
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = array(
        "NodeEndpoint", versions="1+", tag=0
    )
