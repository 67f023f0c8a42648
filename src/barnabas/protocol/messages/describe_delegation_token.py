"""DescribeDelegationToken: list delegation tokens."""

from __future__ import annotations

from barnabas.protocol.fields import array, binary, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeDelegationTokenRequest(Message, api="DescribeDelegationToken"):
    """The owners whose tokens are described; null for all tokens."""

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = string()
        principal_name: str = string()

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = array(
        "DescribeDelegationTokenOwner", nullable=True
    )


class DescribeDelegationTokenResponse(Message, api="DescribeDelegationToken"):
    """The tokens that the requester may see."""

    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str = string()
        principal_name: str = string()

    class DescribedDelegationToken(Struct):
        principal_type: str = string()
        principal_name: str = string()
        token_requester_principal_type: str = string(versions="3+")
        token_requester_principal_name: str = string(versions="3+")
        issue_timestamp: int = int64()
        expiry_timestamp: int = int64()
        max_timestamp: int = int64()
        token_id: str = string()
        hmac: bytes = binary(secret=True)
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = array(
            "DescribedDelegationTokenRenewer"
        )

    error_code: int = int16()
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = array(
        "DescribedDelegationToken"
    )
    throttle_time_ms: int = int32()
