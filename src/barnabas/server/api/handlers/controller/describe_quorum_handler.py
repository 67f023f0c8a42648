"""DescribeQuorum v0-2: who leads the metadata's log, and how far its voters are."""

from typing import TYPE_CHECKING

from barnabas.cluster.metadata.image import METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from barnabas.protocol.types import ZERO_UUID
from barnabas.server.api.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.quorum.quorum import Quorum

Partition = DescribeQuorumResponse.PartitionData


def describe_quorum(
    ctx: "RequestContext[Quorum]", request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """The state of `__cluster_metadata-0`, asked for alone; all else is unknown to the quorum."""
    asked = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    response = DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponse.TopicData(
                topic_name=METADATA_TOPIC, partitions=[_metadata_partition(ctx)]
            )
        ]
    )
    if ctx.version >= 2:
        response.nodes = [
            DescribeQuorumResponse.Node(
                node_id=voter.key.id,
                listeners=[
                    DescribeQuorumResponse.Listener(name=p.name, host=p.host, port=p.port)
                    for p in voter.endpoints
                ],
            )
            for voter in ctx.services.core.voters
        ]
    return response


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


def _metadata_partition(ctx: "RequestContext[Quorum]") -> Partition:
    core, now_ms = ctx.services.core, ctx.services.now_ms()
    return Partition(
        partition_index=0,
        leader_id=-1 if core.leader_id is None else core.leader_id,
        leader_epoch=core.epoch,
        high_watermark=core.high_watermark,
        current_voters=[
            DescribeQuorumResponse.ReplicaState(
                replica_id=key.id,
                replica_directory_id=key.directory_id if ctx.version >= 2 else ZERO_UUID,
                log_end_offset=core.log_end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for key in core.voters.replica_keys
        ],
    )
