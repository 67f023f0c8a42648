"""Quotas of clients in bytes and in time: who exceeds one, and how long its connection is muted.

`ClientQuotas` (`api.node_quotas`) imports this with the first quota.
"""

from typing import TYPE_CHECKING, Final

from barnabas.security.quota_rate import QuotaRate
from barnabas.server.api.client_meters import ClientMeters
from barnabas.server.api.request_timer import RequestTimer

if TYPE_CHECKING:
    from barnabas.server.api.context import AnyContext

_PERCENT_OF_SECOND: Final = 100 / 1_000_000_000  # of a nanosecond
_WRITE_TXN_MARKERS: Final = 27


class RateQuota(ClientMeters[QuotaRate]):
    """The quotas of a rate."""

    def _new_counter(self, now_ms: int) -> QuotaRate:
        return QuotaRate(self._windows, self._window_ms, now_ms)


class ByteQuota(RateQuota):
    """The quotas of the bytes of one direction."""

    def charge(self, context: "AnyContext", size: int) -> None:
        """Count the bytes of a request; hold the client back when they exceed its quota."""
        meter = self._meter(context)
        if meter is not None:
            now_ms = self._now_ms()
            meter.counter.record(size, now_ms)
            self._hold_back(context, meter.counter.throttle_ms(meter.limit, now_ms))

    def refuses(self, context: "AnyContext", size: int) -> bool:
        """Count the bytes of a response that is ready, or hold the client back without it.

        The bytes of a response that is not sent do not count.
        """
        meter = self._meter(context)
        if meter is None:
            return False
        now_ms = self._now_ms()
        meter.counter.record(size, now_ms)
        throttle_ms = meter.counter.throttle_ms(meter.limit, now_ms)
        if not throttle_ms:
            return False
        meter.counter.record(-size, now_ms)
        self._hold_back(context, throttle_ms)
        return True

    def take_back(self, context: "AnyContext", size: int) -> None:
        """Do not count the bytes of a response that another quota refuses."""
        meter = self._meter(context)
        if meter is not None:
            meter.counter.record(-size, self._now_ms())

    def response_bytes_max(self, context: "AnyContext", limit: int) -> int:
        """Return the bytes, at most `limit`, that are within the quota if nothing else counts."""
        meter = self._meter(context)
        if meter is None:
            return limit
        most = meter.limit * (self._windows - 1) * self._window_ms / 1000
        return int(most) if most < limit else limit


class RequestTimeQuota(RateQuota):
    """The quotas of the time that requests take, in percent of one loop (`request_percentage`).

    Requests of brokers to brokers and to controllers are exempt.
    """

    def start(self, context: "AnyContext") -> None:
        """Count the time of a request from now on."""
        if context.route.listener == "broker":
            context.timer = RequestTimer()

    def charge(self, context: "AnyContext") -> bool:
        """Count the time that a request took until now, once.

        Hold the client back for at most one window, and return True, when it exceeds its quota.
        """
        if context.api_key == _WRITE_TXN_MARKERS:
            self.exempt(context)
        timer, context.timer = context.timer, None
        meter = None if timer is None else self._meter(context)
        if timer is None or meter is None:
            return False
        now_ms = self._now_ms()
        meter.counter.record(timer.elapsed_ns() * _PERCENT_OF_SECOND, now_ms)
        throttle_ms = min(meter.counter.throttle_ms(meter.limit, now_ms), self._window_ms)
        self._hold_back(context, throttle_ms)
        return throttle_ms > 0

    def exempt(self, context: "AnyContext") -> None:
        """Count the time of a request of a broker, which is not held back."""
        timer, context.timer = context.timer, None
        if timer is not None:
            self._counts.exempt_ns += timer.elapsed_ns()
