"""Counts of each client that has a quota of one kind."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from barnabas.server.api.node_quotas import ThrottleCounts

if TYPE_CHECKING:
    from barnabas.security.quota_index import Bucket, QuotaIndex
    from barnabas.server.api.context import AnyContext

_IDLE_MS: Final = 3_600_000
"""A meter that counts nothing for so long is forgotten, as in Kafka."""
_METERS_MAX: Final = 10_000
"""A client may invent an id for each connection; the meters used longest ago are forgotten."""


class Counter(Protocol):
    """A count of a meter."""

    last_ms: int
    """When something was last counted."""


CounterT = TypeVar("CounterT", bound=Counter)


class Meter(Generic[CounterT]):
    """The count of those who share a quota, and its limit."""

    __slots__ = ("counter", "limit")

    def __init__(self, counter: CounterT) -> None:
        self.counter = counter
        self.limit = 0.0


class ClientMeters(ABC, Generic[CounterT]):
    """The quotas of one kind. Counts cover `windows` windows of `window_ms`."""

    def __init__(
        self, windows: int, window_ms: int, now_ms: Callable[[], int], counts: ThrottleCounts
    ) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._now_ms = now_ms
        self._counts = counts
        self._index: QuotaIndex | None = None
        self.meters: OrderedDict[Bucket, Meter[CounterT]] = OrderedDict()

    def limit_by(self, index: "QuotaIndex") -> None:
        """Replace the quotas; what was counted remains."""
        self._index = index

    def _hold_back(self, context: "AnyContext", throttle_ms: int) -> None:
        """Hold the client of a request back, unless another quota does for longer."""
        self._counts.add(throttle_ms)
        context.throttle_ms = max(context.throttle_ms, throttle_ms)

    @abstractmethod
    def _new_counter(self, now_ms: int) -> CounterT:
        """Return a counter of a client that has counted nothing."""

    def _meter(self, context: "AnyContext") -> Meter[CounterT] | None:
        """Return the meter that a client's requests count in; None without a quota."""
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

    def _new_meter(self) -> Meter[CounterT]:
        now_ms = self._now_ms()
        while self.meters:
            oldest = next(iter(self.meters))
            is_idle = now_ms - self.meters[oldest].counter.last_ms >= _IDLE_MS
            if not is_idle and len(self.meters) < _METERS_MAX:
                break
            del self.meters[oldest]
        return Meter(self._new_counter(now_ms))
