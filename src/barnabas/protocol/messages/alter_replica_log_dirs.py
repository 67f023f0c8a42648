"""AlterReplicaLogDirs: move replicas between the log directories of one broker."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class AlterReplicaLogDirsRequest(Message, api="AlterReplicaLogDirs"):
    """The target directory of each partition."""

    class AlterReplicaLogDirTopic(Struct):
        name: str = string()
        partitions: list[int] = array(Kind.INT32)

    class AlterReplicaLogDir(Struct):
        path: str = string()
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = array(
            "AlterReplicaLogDirTopic"
        )

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = array("AlterReplicaLogDir")


class AlterReplicaLogDirsResponse(Message, api="AlterReplicaLogDirs"):
    """The result of each partition: whether the move was accepted."""

    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = string()
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = array(
            "AlterReplicaLogDirPartitionResult"
        )

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = array(
        "AlterReplicaLogDirTopicResult"
    )
