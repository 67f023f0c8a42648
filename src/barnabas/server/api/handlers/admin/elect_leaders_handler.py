"""ElectLeaders v0-2: have partitions led by their preferred replica, or by any that is there."""

from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.server.api.context import NodeContext as RequestContext


async def elect_leaders(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect in the partitions named, or in all."""
    return await ctx.node.quorum.submit(
        lambda controller, now_ms: controller.elect_leaders(request)
    )
