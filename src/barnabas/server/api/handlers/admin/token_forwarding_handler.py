"""CreateDelegationToken v1-3, RenewDelegationToken v1-2 and ExpireDelegationToken v1-2 on a broker.

The controller decides them; the broker first refuses clients that may not use tokens.
"""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.server.api.handler_services import AdminContext
from barnabas.server.api.handlers.admin.forwarding_handler import send_on_behalf
from barnabas.server.api.handlers.security.token_requests import (
    ERROR_TIMESTAMP,
    may_use_tokens,
    refused_creation,
)

_NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def create_delegation_token(
    ctx: AdminContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | None:
    """Create a token of the client, or of another owner when the client may."""
    refusal = refused_creation(ctx, ctx.services.settings.current, request)
    if refusal is not None:
        return refusal
    return await send_on_behalf(ctx, request, CreateDelegationTokenResponse)


async def renew_delegation_token(
    ctx: AdminContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse | None:
    """Renew a token of which the client is the owner or a renewer."""
    if not may_use_tokens(ctx, ctx.services.settings.current):
        return RenewDelegationTokenResponse(
            error_code=_NOT_ALLOWED, expiry_timestamp_ms=ERROR_TIMESTAMP
        )
    return await send_on_behalf(ctx, request, RenewDelegationTokenResponse)


async def expire_delegation_token(
    ctx: AdminContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse | None:
    """Set the end of a token of which the client is the owner or a renewer."""
    if not may_use_tokens(ctx, ctx.services.settings.current):
        return ExpireDelegationTokenResponse(
            error_code=_NOT_ALLOWED, expiry_timestamp_ms=ERROR_TIMESTAMP
        )
    return await send_on_behalf(ctx, request, ExpireDelegationTokenResponse)
