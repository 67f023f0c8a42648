"""The tokens of a quota that allows bursts (Kafka's `TokenBucket`, KIP-599).

A bucket holds what is allowed within all windows. It is refilled at the rate of the quota, and may
go below zero: a client that takes more than there is waits until the bucket is at zero again.
"""

from math import floor
from typing import Final

_THROTTLE_MS_MAX: Final = (1 << 31) - 1


class TokenBucket:
    """The tokens of `windows` windows of `window_ms`; a new bucket is full."""

    __slots__ = ("_burst_s", "_tokens", "last_ms")

    def __init__(self, windows: int, window_ms: int, now_ms: int) -> None:
        self._burst_s = windows * window_ms / 1000
        self._tokens: float | None = None
        self.last_ms = now_ms

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens, also those that are not there; `rate` is the quota, in tokens a second."""
        self._tokens = min(self._left(rate, now_ms) - count, self._burst_s * rate)

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """Return the time until the bucket is at zero; 0 when it is not below."""
        tokens = self._left(rate, now_ms)
        if not tokens < 0:
            return 0
        wait_ms = -tokens / rate * 1000
        return floor(wait_ms + 0.5) if wait_ms < _THROTTLE_MS_MAX else _THROTTLE_MS_MAX

    def _left(self, rate: float, now_ms: int) -> float:
        burst = self._burst_s * rate
        if self._tokens is None:
            self._tokens = burst
        else:
            self._tokens = min(self._tokens + rate * (now_ms - self.last_ms) / 1000, burst)
        self.last_ms = now_ms
        return self._tokens
