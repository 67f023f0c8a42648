"""Quotas of clients in bytes a second: who exceeds one, and how long its connection is muted.

`ClientQuotas` (`api.handler_services`) imports this with the first quota.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.security.quota_rate import QuotaRate

if TYPE_CHECKING:
    from barnabas.security.quota_index import Bucket, QuotaIndex
    from barnabas.server.api.context import AnyContext

_IDLE_MS: Final = 3_600_000
"""A rate that counts nothing for so long is forgotten, as in Kafka."""
_METERS_MAX: Final = 10_000
"""A client may invent an id for each connection; the rates used longest ago are forgotten."""


class Meter:
    """The rate of those who share a quota, and how long they were held back."""

    __slots__ = ("limit", "rate", "throttled", "throttled_ms")

    def __init__(self, rate: QuotaRate) -> None:
        self.rate = rate
        self.limit = 0.0
        self.throttled = 0
        self.throttled_ms = 0

    def exceed(self, now_ms: int) -> int:
        """Return for how long the client must be held back; 0 when it is within its quota."""
        throttle_ms = self.rate.throttle_ms(self.limit, now_ms)
        if throttle_ms:
            self.throttled += 1
            self.throttled_ms += throttle_ms
        return throttle_ms


class ByteQuota:
    """The quotas of one direction. Rates are measured over `windows` windows of `window_ms`."""

    def __init__(self, windows: int, window_ms: int, now_ms: Callable[[], int]) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._now_ms = now_ms
        self._index: QuotaIndex | None = None
        self.meters: OrderedDict[Bucket, Meter] = OrderedDict()

    def limit_by(self, index: "QuotaIndex") -> None:
        """Replace the quotas; what was counted remains."""
        self._index = index

    def charge(self, context: "AnyContext", size: int) -> None:
        """Count the bytes of a request; hold the client back when they exceed its quota."""
        meter = self._meter(context)
        if meter is not None:
            now_ms = self._now_ms()
            meter.rate.record(size, now_ms)
            context.throttle_ms = max(context.throttle_ms, meter.exceed(now_ms))

    def refuses(self, context: "AnyContext", size: int) -> bool:
        """Count the bytes of a response that is ready, or hold the client back without it.

        The bytes of a response that is not sent do not count.
        """
        meter = self._meter(context)
        if meter is None:
            return False
        now_ms = self._now_ms()
        meter.rate.record(size, now_ms)
        throttle_ms = meter.exceed(now_ms)
        if not throttle_ms:
            return False
        meter.rate.record(-size, now_ms)
        context.throttle_ms = max(context.throttle_ms, throttle_ms)
        return True

    def response_bytes_max(self, context: "AnyContext", limit: int) -> int:
        """Return the bytes, at most `limit`, that are within the quota if nothing else counts."""
        meter = self._meter(context)
        if meter is None:
            return limit
        most = meter.limit * (self._windows - 1) * self._window_ms / 1000
        return int(most) if most < limit else limit

    def _meter(self, context: "AnyContext") -> Meter | None:
        """Return the rate that a client's bytes count in; None without a quota."""
        index = self._index
        if index is None:
            return None
        found = index.find(context.connection.principal.name, context.client_id or "")
        if found is None:
            return None
        bucket, limit = found
        meter = self.meters.get(bucket)
        if meter is None:
            meter = self.meters[bucket] = self._new_meter()
        else:
            self.meters.move_to_end(bucket)
        meter.limit = limit
        return meter

    def _new_meter(self) -> Meter:
        now_ms = self._now_ms()
        while self.meters:
            oldest = next(iter(self.meters))
            is_idle = now_ms - self.meters[oldest].rate.last_ms >= _IDLE_MS
            if not is_idle and len(self.meters) < _METERS_MAX:
                break
            del self.meters[oldest]
        return Meter(QuotaRate(self._windows, self._window_ms, now_ms))
