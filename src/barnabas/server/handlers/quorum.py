"""DescribeQuorum v0-2: who leads the metadata's log, and how far its voters are."""

from barnabas.cluster.image import METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from barnabas.server.context import RequestContext
from barnabas.server.dispatch import handles

Partition = DescribeQuorumResponse.PartitionData


@handles(DescribeQuorumRequest)
def describe_quorum(ctx: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """The state of `__cluster_metadata-0`; any other partition is unknown to the quorum."""
    response = DescribeQuorumResponse(error_message=None)
    for topic in request.topics:
        partitions: list[Partition] = []
        for asked in topic.partitions:
            if topic.topic_name == METADATA_TOPIC and asked.partition_index == 0:
                partitions.append(_metadata_partition(ctx))
            else:
                partitions.append(
                    Partition(
                        partition_index=asked.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="This server does not host this topic-partition.",
                    )
                )
        response.topics.append(
            DescribeQuorumResponse.TopicData(topic_name=topic.topic_name, partitions=partitions)
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
            for voter in ctx.node.quorum.core.voters
        ]
    return response


def _metadata_partition(ctx: RequestContext) -> Partition:
    core, now_ms = ctx.node.quorum.core, ctx.node.now_ms()
    return Partition(
        partition_index=0,
        error_message=None,
        leader_id=-1 if core.leader_id is None else core.leader_id,
        leader_epoch=core.epoch,
        high_watermark=core.high_watermark,
        current_voters=[
            DescribeQuorumResponse.ReplicaState(
                replica_id=key.id,
                replica_directory_id=key.directory_id,
                log_end_offset=core.log_end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for key in core.voters.replica_keys
        ],
    )
