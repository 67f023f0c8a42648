"""AlterPartitionReassignments v0-1 and ListPartitionReassignments v0: partitions that move."""

from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.server.api.context import NodeContext as RequestContext


async def alter_partition_reassignments(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Give partitions other replicas, or cancel that."""
    if not request.topics:  # as Kafka, which does not ask its controller then
        return AlterPartitionReassignmentsResponse()
    return await ctx.node.quorum.submit(
        lambda controller, now_ms: controller.alter_partition_reassignments(request)
    )


def list_partition_reassignments(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The partitions that are moving, of all topics or of those asked for."""
    image = ctx.node.image
    answer = ListPartitionReassignmentsResponse
    response = answer(error_message=None)
    if request.topics is None:
        wanted = [(topic, None) for topic in image.topics_by_name.values()]
    else:
        wanted = [
            (topic, set(asked.partition_indexes))
            for asked in request.topics
            if (topic := image.topics_by_name.get(asked.name)) is not None
        ]
    for topic, numbers in wanted:
        moving = [
            answer.OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for number, partition in topic.partitions.items()
            if (numbers is None or number in numbers)
            and (partition.adding_replicas or partition.removing_replicas)
        ]
        if moving:
            response.topics.append(
                answer.OngoingTopicReassignment(name=topic.name, partitions=moving)
            )
    return response
