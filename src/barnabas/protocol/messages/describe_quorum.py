"""DescribeQuorum: describe the metadata quorum."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string, uint16, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class DescribeQuorumRequest(Message, api="DescribeQuorum"):
    """The metadata partition, whose quorum is described."""

    class PartitionData(Struct):
        partition_index: int = int32()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[DescribeQuorumRequest.PartitionData] = array("PartitionData")

    topics: list[DescribeQuorumRequest.TopicData] = array("TopicData")


class DescribeQuorumResponse(Message, api="DescribeQuorum"):
    """Leader, epoch, high watermark, and the progress of each replica."""

    class ReplicaState(Struct):
        replica_id: int = int32()
        replica_directory_id: Uuid = uuid(versions="2+")
        log_end_offset: int = int64()
        last_fetch_timestamp: int = int64(versions="1+", default=-1, ignorable=True)
        last_caught_up_timestamp: int = int64(versions="1+", default=-1, ignorable=True)

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(versions="2+", nullable=True, ignorable=True)
        leader_id: int = int32()
        leader_epoch: int = int32()
        high_watermark: int = int64()
        current_voters: list[DescribeQuorumResponse.ReplicaState] = array("ReplicaState")
        observers: list[DescribeQuorumResponse.ReplicaState] = array("ReplicaState")

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[DescribeQuorumResponse.PartitionData] = array("PartitionData")

    class Listener(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()

    class Node(Struct):
        node_id: int = int32()
        listeners: list[DescribeQuorumResponse.Listener] = array("Listener")

    error_code: int = int16()
    error_message: str | None = string(versions="2+", nullable=True, ignorable=True)
    topics: list[DescribeQuorumResponse.TopicData] = array("TopicData")
    nodes: list[DescribeQuorumResponse.Node] = array("Node", versions="2+")
