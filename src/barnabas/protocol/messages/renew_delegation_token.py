"""RenewDelegationToken."""

from __future__ import annotations

from barnabas.protocol.fields import binary, int16, int32, int64
from barnabas.protocol.messages_base import Message


class RenewDelegationTokenRequest(Message, api_key=39, versions="1-2", flexible="2+"):
    """The renew delegation token request."""

    hmac: bytes = binary(secret=True)
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Message, api_key=39, versions="1-2", flexible="2+"):
    """The renew delegation token response."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
