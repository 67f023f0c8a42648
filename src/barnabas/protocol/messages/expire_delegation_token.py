"""ExpireDelegationToken: change when a delegation token expires."""

from __future__ import annotations

from barnabas.protocol.fields import binary, int16, int32, int64
from barnabas.protocol.messages_base import Message


class ExpireDelegationTokenRequest(Message, api="ExpireDelegationToken"):
    """The HMAC of a token, and its expiry period (ms)."""

    hmac: bytes = binary(secret=True)
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message, api="ExpireDelegationToken"):
    """The time at which the token expires."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
