"""ElectLeaders: elect partition leaders."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class ElectLeadersRequest(Message, api="ElectLeaders"):
    """The type of election, preferred or unclean, and the partitions; null for all."""

    class TopicPartitions(Struct):
        topic: str = string()
        partitions: list[int] = array(Kind.INT32)

    election_type: int = int8(versions="1+")
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = array(
        "TopicPartitions", nullable=True
    )
    timeout_ms: int = int32(default=60000)


class ElectLeadersResponse(Message, api="ElectLeaders"):
    """The result of the election in each partition."""

    class PartitionResult(Struct):
        partition_id: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True)

    class ReplicaElectionResult(Struct):
        topic: str = string()
        partition_result: list[ElectLeadersResponse.PartitionResult] = array("PartitionResult")

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="1+")
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = array(
        "ReplicaElectionResult"
    )
