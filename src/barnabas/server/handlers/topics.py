"""CreateTopics v2-7, DeleteTopics v1-6, CreatePartitions v0-3 and ListPartitionReassignments v0.

The controller judges each topic by itself; the answer goes out once the changes are committed and
this node serves them.
"""

from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.server.context import RequestContext
from barnabas.server.dispatch import handles


@handles(CreateTopicsRequest)
async def create_topics(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics, or with `validate_only` tell what would become of it."""
    return await ctx.node.quorum.submit(
        lambda controller, now_ms: controller.create_topics(request)
    )


@handles(DeleteTopicsRequest)
async def delete_topics(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics by name, since v6 also by id."""
    version = ctx.version
    return await ctx.node.quorum.submit(
        lambda controller, now_ms: controller.delete_topics(request, version)
    )


@handles(CreatePartitionsRequest)
async def create_partitions(
    ctx: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Give topics more partitions."""
    return await ctx.node.quorum.submit(
        lambda controller, now_ms: controller.create_partitions(request)
    )


@handles(ListPartitionReassignmentsRequest)
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
