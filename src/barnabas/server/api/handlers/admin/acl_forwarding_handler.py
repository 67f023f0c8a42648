"""CreateAcls and DeleteAcls (versions 1-3) on a broker listener: the controller decides them."""

from barnabas.protocol.apis import API
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages_base import Message
from barnabas.server.api.handler_services import AdminContext
from barnabas.server.api.handlers.admin.forwarding_handler import send_on_behalf
from barnabas.server.api.handlers.security.acl_handlers import check_form


async def forward_acls(
    ctx: AdminContext, request: CreateAclsRequest | DeleteAclsRequest
) -> Message | None:
    """Send the request to the controller on the client's behalf.

    Raises ProtocolError for an element that is UNKNOWN.
    """
    check_form(request)
    return await send_on_behalf(ctx, request, API[ctx.api_key].response_type)
