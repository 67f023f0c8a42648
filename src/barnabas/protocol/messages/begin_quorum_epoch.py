"""BeginQuorumEpoch: announce the quorum's new leader."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, string, uint16, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class BeginQuorumEpochRequest(Message, api="BeginQuorumEpoch"):
    """The leader of the new epoch and its endpoints, sent to a voter."""

    class PartitionData(Struct):
        partition_index: int = int32()
        voter_directory_id: Uuid = uuid(versions="1+", ignorable=True)
        leader_id: int = int32()
        leader_epoch: int = int32()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[BeginQuorumEpochRequest.PartitionData] = array("PartitionData")

    class LeaderEndpoint(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()

    cluster_id: str | None = string(nullable=True, default=None)
    voter_id: int = int32(versions="1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequest.TopicData] = array("TopicData")
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = array(
        "LeaderEndpoint", versions="1+", ignorable=True
    )


class BeginQuorumEpochResponse(Message, api="BeginQuorumEpoch"):
    """The acknowledgement of the leader, or a later epoch."""

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        leader_id: int = int32()
        leader_epoch: int = int32()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[BeginQuorumEpochResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = uint16()

    error_code: int = int16()
    topics: list[BeginQuorumEpochResponse.TopicData] = array("TopicData")
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = array(
        "NodeEndpoint", versions="1+", tag=0
    )
