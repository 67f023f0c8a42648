"""Create, renew and expire delegation tokens, as Kafka's `DelegationTokenControlManager`."""

from typing import Final

import attrs

from barnabas.cluster.controller.controller_requests import TokenOperation
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.metadata.delegation_tokens import (
    SECRET_KEY,
    DelegationToken,
    TokenProofs,
    token_hmac,
)
from barnabas.cluster.metadata.feature_levels import DELEGATION_TOKENS_SINCE, METADATA_VERSION
from barnabas.protocol.errors import ErrorCode, KafkaError
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
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import RemoveDelegationTokenRecord

MAX_LIFETIME: Final = "delegation.token.max.lifetime.ms"
EXPIRY_TIME: Final = "delegation.token.expiry.time.ms"

_USER: Final = "User"
_REQUESTER_SINCE: Final = 3
"""The version of CreateDelegationToken since which the response has the requester."""
_LATEST_MS: Final = (1 << 63) - 1


def change_token(
    context: Context, proofs: TokenProofs, operation: TokenOperation, version: int, now_ms: int
) -> ControllerResult[Message]:
    """Create, renew or expire a token; `now_ms` is in milliseconds since the epoch.

    Raises KafkaError when a token cannot be renewed or expired. The response has the error when it
    cannot be created.
    """
    request, requester = operation.request, operation.requester
    if isinstance(request, CreateDelegationTokenRequest):
        return _create(context, requester, request, version, now_ms)
    token_id = proofs.find(context.image.tokens, _secret(context), bytes(request.hmac))
    if token_id is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    token = context.image.tokens[token_id]
    if isinstance(request, RenewDelegationTokenRequest):
        return _renew(context, requester, request, token_id, token, now_ms)
    return _expire(requester, request, token_id, token, now_ms)


def _secret(context: Context) -> str:
    """Return the secret of tokens. Raises KafkaError when there are none in this cluster."""
    secret: str | None = context.config.get(SECRET_KEY)
    if not secret:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if context.image.features.get(METADATA_VERSION, 0) < DELEGATION_TOKENS_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current metadata.version does not support delegation tokens",
        )
    return secret


def _create(
    context: Context,
    requester: str,
    request: CreateDelegationTokenRequest,
    version: int,
    now_ms: int,
) -> ControllerResult[Message]:
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    response = CreateDelegationTokenResponse()
    response.principal_type, _, response.principal_name = owner.partition(":")
    if version >= _REQUESTER_SINCE:
        kind, _, name = requester.partition(":")
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    try:
        secret = _secret(context)
        token = _token(context, owner, requester, request, now_ms)
    except KafkaError as error:
        response.error_code = error.code
        return ControllerResult([], response)
    token_id = str(context.new_id())
    response.issue_timestamp_ms = token.issue_timestamp_ms
    response.expiry_timestamp_ms = token.expiry_timestamp_ms
    response.max_timestamp_ms = token.max_timestamp_ms
    response.token_id = token_id
    response.hmac = token_hmac(secret, token_id)
    return ControllerResult([token.record(token_id)], response)


def _token(
    context: Context,
    owner: str,
    requester: str,
    request: CreateDelegationTokenRequest,
    now_ms: int,
) -> DelegationToken:
    """Return a new token. Raises KafkaError when a renewer is not a user."""
    if any(renewer.principal_type != _USER for renewer in request.renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    lifetime_ms = context.config.get_int(MAX_LIFETIME)
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_timestamp_ms = _later(now_ms, lifetime_ms)
    expiry_ms = _later(now_ms, context.config.get_int(EXPIRY_TIME))
    return DelegationToken(
        owner=owner,
        requester=requester,
        renewers=tuple(f"{_USER}:{renewer.principal_name}" for renewer in request.renewers),
        issue_timestamp_ms=now_ms,
        max_timestamp_ms=max_timestamp_ms,
        expiry_timestamp_ms=min(max_timestamp_ms, expiry_ms),
    )


def _renew(
    context: Context,
    requester: str,
    request: RenewDelegationTokenRequest,
    token_id: str,
    token: DelegationToken,
    now_ms: int,
) -> ControllerResult[Message]:
    _check_valid(token, now_ms)
    _check_rights(token, requester)
    period_ms = context.config.get_int(EXPIRY_TIME)
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    renewed = _until(token, _later(now_ms, period_ms))
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expiry_timestamp_ms)
    return ControllerResult([renewed.record(token_id)], response)


def _expire(
    requester: str,
    request: ExpireDelegationTokenRequest,
    token_id: str,
    token: DelegationToken,
    now_ms: int,
) -> ControllerResult[Message]:
    """Set the end of a token; a period below zero removes it, also when it has expired."""
    _check_rights(token, requester)
    if request.expiry_time_period_ms < 0:
        response = ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
        return ControllerResult([RemoveDelegationTokenRecord(token_id=token_id)], response)
    _check_valid(token, now_ms)
    ended = _until(token, _later(now_ms, request.expiry_time_period_ms))
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=ended.expiry_timestamp_ms)
    return ControllerResult([ended.record(token_id)], response)


def expired_tokens(context: Context, now_ms: int, most: int) -> list[Message]:
    """Return the records that remove expired tokens, `most` at a time."""
    records: list[Message] = []
    for token_id, token in context.image.tokens.items():
        if len(records) == most:
            break
        if token.is_expired(now_ms):
            records.append(RemoveDelegationTokenRecord(token_id=token_id))
    return records


def _check_valid(token: DelegationToken, now_ms: int) -> None:
    if token.is_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _check_rights(token: DelegationToken, requester: str) -> None:
    if not token.belongs_to(requester):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _until(token: DelegationToken, expiry_ms: int) -> DelegationToken:
    """Return the token with another end, at most that of its lifetime."""
    return attrs.evolve(token, expiry_timestamp_ms=min(token.max_timestamp_ms, expiry_ms))


def _later(now_ms: int, period_ms: int) -> int:
    """Return a time after now, at most the latest that a message can have."""
    return min(_LATEST_MS, now_ms + period_ms)
