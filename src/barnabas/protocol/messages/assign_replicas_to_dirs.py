"""AssignReplicasToDirs: report to the controller which directories hold a broker's replicas."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class AssignReplicasToDirsRequest(Message, api="AssignReplicasToDirs"):
    """The directory of each partition."""

    class PartitionData(Struct):
        partition_index: int = int32()

    class TopicData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = array("PartitionData")

    class DirectoryData(Struct):
        id: Uuid = uuid()
        topics: list[AssignReplicasToDirsRequest.TopicData] = array("TopicData")

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[AssignReplicasToDirsRequest.DirectoryData] = array("DirectoryData")


class AssignReplicasToDirsResponse(Message, api="AssignReplicasToDirs"):
    """The result of each partition: whether the assignment was recorded."""

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class TopicData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = array("PartitionData")

    class DirectoryData(Struct):
        id: Uuid = uuid()
        topics: list[AssignReplicasToDirsResponse.TopicData] = array("TopicData")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[AssignReplicasToDirsResponse.DirectoryData] = array("DirectoryData")
