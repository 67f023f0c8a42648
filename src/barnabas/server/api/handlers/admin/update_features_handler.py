"""UpdateFeatures v0-2: other levels of features for the whole cluster.

What depends on a level reads it from the metadata, so it follows once the change is committed;
clients learn of it from ApiVersions.
"""

from barnabas.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.server.api.context import NodeContext as RequestContext


async def update_features(
    ctx: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Raise or lower levels, all or none."""
    version = ctx.version
    return await ctx.node.quorum.submit(
        lambda controller, now_ms: controller.update_features(request, version)
    )
