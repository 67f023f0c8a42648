"""What the handlers of all kinds of groups share."""

from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.coordinator.groups.rebalance_history import CAUSES_TAG, encode_causes
from barnabas.protocol.messages_base import Message, Struct
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


def tell_causes(ctx: RequestContext, request: Message, group_id: str, answer: Struct) -> None:
    """Adds why the group rebalanced lately, for who asks (see `coordinator.history`)."""
    if CAUSES_TAG in request.unknown_tagged_fields:
        causes = ctx.node.groups.causes(group_id)
        answer.unknown_tagged_fields[CAUSES_TAG] = encode_causes(causes)
