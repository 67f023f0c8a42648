"""CreateDelegationToken: issue a delegation token."""

from __future__ import annotations

from barnabas.protocol.fields import array, binary, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class CreateDelegationTokenRequest(Message, api="CreateDelegationToken"):
    """The owner of the token, its renewers and its maximum lifetime (ms)."""

    class CreatableRenewers(Struct):
        principal_type: str = string()
        principal_name: str = string()

    owner_principal_type: str | None = string(versions="3+", nullable=True)
    owner_principal_name: str | None = string(versions="3+", nullable=True)
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = array("CreatableRenewers")
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Message, api="CreateDelegationToken"):
    """The token and when it expires."""

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(versions="3+")
    token_requester_principal_name: str = string(versions="3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = binary(secret=True)
    throttle_time_ms: int = int32()
