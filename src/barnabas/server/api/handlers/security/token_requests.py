"""Which clients may send requests about delegation tokens, and the refusals of the others.

A token is a secret: its requests need a connection that proves who the client is, and that no token
authenticated. Brokers and controllers both check this, as in Apache Kafka.
"""

from typing import TYPE_CHECKING, Final

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.security.principals import ANONYMOUS, USER, Principal
from barnabas.server.api.context import AnyContext
from barnabas.server.api.embedded_requests import EmbeddedPeer
from barnabas.server.api.permissions import may

if TYPE_CHECKING:
    from barnabas.config import NodeConfig

ERROR_TIMESTAMP: Final = -1
"""Each time in a refusal (`DelegationTokenManager.ERROR_TIMESTAMP`)."""
_REQUESTER_SINCE: Final = 3


def may_use_tokens(ctx: AnyContext, config: "NodeConfig") -> bool:
    """True when the sender may send requests about tokens.

    A controller does not look at the listener of a request that a broker forwards, as in Kafka:
    the broker has checked its own.
    """
    principal = ctx.connection.principal
    if principal.token_authenticated:
        return False
    if isinstance(ctx.connection, EmbeddedPeer):
        return True
    protocol = config.security_protocols.get(ctx.connection.listener_name, "PLAINTEXT")
    if protocol == "SSL":
        return principal != ANONYMOUS
    return protocol != "PLAINTEXT"


def refused_creation(
    ctx: AnyContext, config: "NodeConfig", request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | None:
    """Return the refusal of a request to create a token, or None.

    A token of another owner needs CREATE_TOKENS on that user.
    """
    requester = ctx.connection.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    if not may_use_tokens(ctx, config):
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != requester and not _may_create_for(ctx, owner):
        error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif not owner.type or any(each.principal_type != USER for each in request.renewers):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    else:
        return None
    has_requester = ctx.version >= _REQUESTER_SINCE
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type if has_requester else "",
        token_requester_principal_name=requester.name if has_requester else "",
        issue_timestamp_ms=ERROR_TIMESTAMP,
        expiry_timestamp_ms=ERROR_TIMESTAMP,
        max_timestamp_ms=ERROR_TIMESTAMP,
    )


def _may_create_for(ctx: AnyContext, owner: Principal) -> bool:
    if ctx.route.authorizer is None:
        return True
    return may(ctx, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner))
