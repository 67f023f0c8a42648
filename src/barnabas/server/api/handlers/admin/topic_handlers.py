"""CreateTopics v2-7, DeleteTopics v1-6 and CreatePartitions v0-3.

The controller judges each topic by itself; the answer goes out once the changes are committed and
this node serves them.
"""

from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.server.api.context import NodeContext as RequestContext


async def create_topics(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics, or with `validate_only` tell what would become of it."""
    return await ctx.node.quorum.submit(
        lambda controller, now_ms: controller.create_topics(request)
    )


async def delete_topics(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics by name, since v6 also by id."""
    version = ctx.version
    return await ctx.node.quorum.submit(
        lambda controller, now_ms: controller.delete_topics(request, version)
    )


async def create_partitions(
    ctx: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Give topics more partitions."""
    return await ctx.node.quorum.submit(
        lambda controller, now_ms: controller.create_partitions(request)
    )
