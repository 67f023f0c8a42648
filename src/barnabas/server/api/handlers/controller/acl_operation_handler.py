"""CreateAcls and DeleteAcls (versions 1-3) at the active controller."""

from typing import TYPE_CHECKING

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages_base import Message
from barnabas.server.api.context import RequestContext
from barnabas.server.api.handlers.security.acl_handlers import check_form

if TYPE_CHECKING:
    from barnabas.server.quorum.quorum import Quorum


async def change_acls(
    ctx: "RequestContext[Quorum]", request: CreateAclsRequest | DeleteAclsRequest
) -> Message:
    """Have the controller decide the request; respond once the change is committed.

    Raises ProtocolError for an element that is UNKNOWN, and KafkaError SECURITY_DISABLED on a node
    without an authorizer.
    """
    check_form(request)
    if ctx.route.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return await ctx.services.handle(request, ctx.version)
