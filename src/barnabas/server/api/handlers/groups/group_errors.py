"""Helpers of the handlers of all group types."""

from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.server.api.handler_services import GroupsContext

# The operations allowed on a group while nothing is authorized: a bit for each of READ (3), DELETE
# (6), DESCRIBE (8), DESCRIBE_CONFIGS (10), ALTER_CONFIGS (11) of AclOperation.
GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def caller(ctx: GroupsContext) -> Caller:
    """Return the request's sender as Kafka records it (with a slash before the address)."""
    return Caller(
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.client_host}",
        version=ctx.version,
        principal=ctx.connection.principal,
    )
