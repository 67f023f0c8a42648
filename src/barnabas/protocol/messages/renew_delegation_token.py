"""RenewDelegationToken: renew a delegation token."""

from __future__ import annotations

from barnabas.protocol.fields import binary, int16, int32, int64
from barnabas.protocol.messages_base import Message


class RenewDelegationTokenRequest(Message, api="RenewDelegationToken"):
    """The HMAC of a token, and its renewal period (ms)."""

    hmac: bytes = binary(secret=True)
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Message, api="RenewDelegationToken"):
    """The time at which the token expires."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
