"""DescribeDelegationToken v1-3: the tokens that the client may see, with their HMACs."""

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.cluster.metadata.delegation_tokens import SECRET_KEY, DelegationToken, token_hmac
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.security.principals import Principal
from barnabas.server.api.handler_services import SecurityContext
from barnabas.server.api.handlers.security.token_requests import may_use_tokens
from barnabas.server.api.permissions import may

_REQUESTER_SINCE = 3

Described = DescribeDelegationTokenResponse.DescribedDelegationToken
Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer


def describe_delegation_token(
    ctx: SecurityContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return the tokens of the owners that the request names, null for all.

    The client sees its own tokens, those that it may renew, and those that ACLs allow:
    DESCRIBE on the token, or DESCRIBE_TOKENS on its owner.
    """
    config = ctx.services.settings.current
    if not may_use_tokens(ctx, config):
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return DescribeDelegationTokenResponse(error_code=error)
    secret: str | None = config.get(SECRET_KEY)
    if not secret:
        error = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return DescribeDelegationTokenResponse(error_code=error)
    owners = None
    if request.owners is not None:
        owners = [f"{each.principal_type}:{each.principal_name}" for each in request.owners]
    tokens = [
        _described(token_id, token, token_hmac(secret, token_id), ctx.version)
        for token_id, token in ctx.services.image().tokens.items()
        if owners is None or any(map(token.belongs_to, owners))
        if _may_see(ctx, token_id, token)
    ]
    return DescribeDelegationTokenResponse(tokens=tokens)


def _may_see(ctx: SecurityContext, token_id: str, token: DelegationToken) -> bool:
    if ctx.route.authorizer is None or token.belongs_to(str(ctx.connection.principal)):
        return True
    return may(ctx, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id) or may(
        ctx, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner
    )


def _described(token_id: str, token: DelegationToken, proof: bytes, version: int) -> Described:
    owner, requester = Principal.parse(token.owner), Principal.parse(token.requester)
    has_requester = version >= _REQUESTER_SINCE
    renewers = map(Principal.parse, token.renewers)
    return Described(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type if has_requester else "",
        token_requester_principal_name=requester.name if has_requester else "",
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiry_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token_id,
        hmac=proof,
        renewers=[Renewer(principal_type=each.type, principal_name=each.name) for each in renewers],
    )
