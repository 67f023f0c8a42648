"""The rate of a quota, and how long a client must wait when it is exceeded.

The arithmetic is that of Kafka's `Rate` over a `WindowedSum`, so that both servers state the same
throttle times. A rate keeps one sample more than it has windows: a sample counts as long as its
last value is within the windows, even if its first is not.
"""

from math import floor, inf
from typing import Final

THROTTLE_MS_MAX: Final = (1 << 31) - 1
"""The longest time that a response can state."""


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class QuotaRate:
    """The rate of the last `windows` windows of `window_ms`; the current one is among them.

    `last_ms` is when something was last counted.
    """

    __slots__ = ("_current", "_samples", "_window_ms", "_windows", "last_ms")

    def __init__(self, windows: int, window_ms: int, now_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._samples = [_Sample(now_ms)]
        self._current = 0
        self.last_ms = now_ms

    def record(self, value: float, now_ms: int) -> None:
        """Count a value; a negative one takes back what was counted."""
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._next_sample(now_ms)
        sample.value += value
        sample.last_ms = self.last_ms = now_ms

    def _next_sample(self, now_ms: int) -> _Sample:
        samples = self._samples
        self._current = (self._current + 1) % (self._windows + 1)
        if self._current == len(samples):
            samples.append(_Sample(now_ms))
        else:
            samples[self._current].reset(now_ms)
        return samples[self._current]

    def per_second(self, now_ms: int) -> float:
        """Return the rate in the windows up to now."""
        rate, _ = self._measured(now_ms)
        return rate

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the time after which the rate is within its limit, if nothing more is counted."""
        rate, elapsed_ms = self._measured(now_ms)
        excess = rate - limit
        if not excess > 0:  # also for a limit that is not a number, which Kafka accepts
            return 0
        wait_ms = excess / limit * elapsed_ms if limit else inf
        return floor(wait_ms + 0.5) if wait_ms < THROTTLE_MS_MAX else THROTTLE_MS_MAX

    def _measured(self, now_ms: int) -> tuple[float, int]:
        """Return the rate for each second, and the time in ms that it covers."""
        elapsed_ms = self._elapsed_ms(now_ms)  # before the sum, as it drops what is too old
        total = sum(sample.value for sample in self._samples)
        return total / (elapsed_ms / 1000), elapsed_ms

    def _elapsed_ms(self, now_ms: int) -> int:
        """Return the time that the samples cover; windows before the first one count as empty."""
        kept_ms = self._windows * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= kept_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1)
