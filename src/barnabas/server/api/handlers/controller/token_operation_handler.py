"""CreateDelegationToken v1-3, RenewDelegationToken v1-2 and ExpireDelegationToken v1-2 at the
active controller.
"""

from typing import TYPE_CHECKING

from barnabas.cluster.controller.controller_requests import TokenOperation
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.server.api.context import RequestContext
from barnabas.server.api.handlers.security.token_requests import (
    ERROR_TIMESTAMP,
    may_use_tokens,
    refused_creation,
)

if TYPE_CHECKING:
    from barnabas.server.quorum.quorum import Quorum

_NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def create_delegation_token(
    ctx: "RequestContext[Quorum]", request: CreateDelegationTokenRequest
) -> Message:
    """Create a token; respond once it is committed."""
    refusal = refused_creation(ctx, ctx.services.settings.current, request)
    return refusal or await _decide(ctx, request)


async def renew_delegation_token(
    ctx: "RequestContext[Quorum]", request: RenewDelegationTokenRequest
) -> Message:
    """Renew a token; respond once the change is committed."""
    if not may_use_tokens(ctx, ctx.services.settings.current):
        return RenewDelegationTokenResponse(
            error_code=_NOT_ALLOWED, expiry_timestamp_ms=ERROR_TIMESTAMP
        )
    return await _decide(ctx, request)


async def expire_delegation_token(
    ctx: "RequestContext[Quorum]", request: ExpireDelegationTokenRequest
) -> Message:
    """Set the end of a token, or remove it; respond once the change is committed."""
    if not may_use_tokens(ctx, ctx.services.settings.current):
        return ExpireDelegationTokenResponse(
            error_code=_NOT_ALLOWED, expiry_timestamp_ms=ERROR_TIMESTAMP
        )
    return await _decide(ctx, request)


async def _decide(
    ctx: "RequestContext[Quorum]",
    request: (
        CreateDelegationTokenRequest | RenewDelegationTokenRequest | ExpireDelegationTokenRequest
    ),
) -> Message:
    operation = TokenOperation(str(ctx.connection.principal), request)
    return await ctx.services.handle(operation, ctx.version)
