"""Vote: elect the quorum's leader."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, int16, int32, int64, string, uint16, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class VoteRequest(Message, api="Vote"):
    """The candidate that asks a voter for its vote, or in a pre-vote whether it would grant one."""

    class PartitionData(Struct):
        partition_index: int = int32()
        replica_epoch: int = int32()
        replica_id: int = int32()
        replica_directory_id: Uuid = uuid(versions="1+", ignorable=True)
        voter_directory_id: Uuid = uuid(versions="1+", ignorable=True)
        last_offset_epoch: int = int32()
        last_offset: int = int64()
        pre_vote: bool = boolean(versions="2+")

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[VoteRequest.PartitionData] = array("PartitionData")

    cluster_id: str | None = string(nullable=True, default=None)
    voter_id: int = int32(versions="1+", default=-1, ignorable=True)
    topics: list[VoteRequest.TopicData] = array("TopicData")


class VoteResponse(Message, api="Vote"):
    """The result: whether the vote is granted, and the voter's epoch and leader."""

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        leader_id: int = int32()
        leader_epoch: int = int32()
        vote_granted: bool = boolean()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[VoteResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = uint16()

    error_code: int = int16()
    topics: list[VoteResponse.TopicData] = array("TopicData")
    node_endpoints: list[VoteResponse.NodeEndpoint] = array("NodeEndpoint", versions="1+", tag=0)
