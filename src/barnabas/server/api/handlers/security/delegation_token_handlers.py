"""The apis of delegation tokens: clients that have not authenticated may not use them.

CreateDelegationToken v1-3, RenewDelegationToken v1-2, ExpireDelegationToken v1-2 and
DescribeDelegationToken v1-3 all return DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Apache Kafka does
on a PLAINTEXT listener.
"""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.server.api.context import AnyContext

_NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def create_delegation_token(
    context: AnyContext, _request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Refuse; the response names the client as owner and requester."""
    principal = context.connection.principal
    kind, name = principal.type, principal.name
    return CreateDelegationTokenResponse(
        error_code=_NOT_ALLOWED,
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=kind if context.version >= 3 else "",
        token_requester_principal_name=name if context.version >= 3 else "",
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def renew_delegation_token(
    _context: AnyContext, _request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Refuse."""
    return RenewDelegationTokenResponse(error_code=_NOT_ALLOWED, expiry_timestamp_ms=-1)


def expire_delegation_token(
    _context: AnyContext, _request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Refuse."""
    return ExpireDelegationTokenResponse(error_code=_NOT_ALLOWED, expiry_timestamp_ms=-1)


def describe_delegation_token(
    _context: AnyContext, _request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Refuse."""
    return DescribeDelegationTokenResponse(error_code=_NOT_ALLOWED)
