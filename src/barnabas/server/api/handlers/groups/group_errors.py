"""What the handlers of all kinds of groups share."""

from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.server.api.context import NodeContext as RequestContext

# What anybody may do with a group while nothing is authorized: a bit for each of
# READ (3), DELETE (6), DESCRIBE (8), DESCRIBE_CONFIGS (10), ALTER_CONFIGS (11) of AclOperation.
GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def caller(ctx: RequestContext) -> Caller:
    """Who sent the request, in the words that Kafka records (an address has a slash before it)."""
    return Caller(
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.client_host}",
        version=ctx.version,
    )
