"""The time for which the event loop is held: from one look at its sockets to the next.

No request is received, and no timer runs, while the loop is held. The clock "wall" includes the
time in which the system ran other processes on the core, the clock "cpu" does not.
"""

from bisect import bisect_left
from collections.abc import Iterator
from time import perf_counter, thread_time
from typing import Any, Final

import trio

BOUNDS: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.5, 1.0, 2.0, 5.0)
"""The upper limits of the histogram's buckets, in seconds; a last bucket has no limit."""
_WINDOW_S: Final = 60.0


class HoldHistogram:
    """Counts of holds by their length, and the longest of the last one to two minutes."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self._longest = self._longest_before = 0.0
        self._window_ends = 0.0

    def add(self, held_s: float, now: float) -> None:
        """Count a hold that ended at `now`."""
        self.counts[bisect_left(BOUNDS, held_s)] += 1
        self.seconds += held_s
        self._turn_over(now)
        self._longest = max(self._longest, held_s)

    def longest(self, now: float) -> float:
        """Return the longest hold of the current minute and the one before."""
        self._turn_over(now)
        return max(self._longest, self._longest_before)

    def _turn_over(self, now: float) -> None:
        if now >= self._window_ends:
            is_next = now < self._window_ends + _WINDOW_S
            self._longest_before = self._longest if is_next else 0.0
            self._longest, self._window_ends = 0.0, now + _WINDOW_S


class LoopHolds(trio.abc.Instrument):
    """An instrument of trio that measures the holds of its loop."""

    def __init__(self) -> None:
        self.wall, self.cpu = HoldHistogram(), HoldHistogram()
        self._began = perf_counter()
        self._cpu_began = thread_time()

    def after_io_wait(self, timeout: float) -> None:
        """The loop has looked at its sockets: it runs the tasks that are ready."""
        self._cpu_began = thread_time()
        self._began = perf_counter()

    def before_io_wait(self, timeout: float) -> None:
        """All tasks that were ready have run: the loop looks at its sockets."""
        now = perf_counter()
        self.wall.add(now - self._began, now)
        self.cpu.add(thread_time() - self._cpu_began, now)


def hold_families(holds: LoopHolds) -> Iterator[Any]:
    """Yield the metric families, as prometheus-client expects."""
    from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

    lengths = HistogramMetricFamily(
        "barnabas_loop_hold_seconds",
        "Time for which the event loop did not look at its sockets",
        labels=["clock"],
    )
    longest = GaugeMetricFamily(
        "barnabas_loop_hold_seconds_max",
        "Longest such time in the last one to two minutes",
        labels=["clock"],
    )
    now = perf_counter()
    for clock, histogram in (("wall", holds.wall), ("cpu", holds.cpu)):
        total, buckets = 0, list[tuple[str, float]]()
        for bound, count in zip((*BOUNDS, None), histogram.counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound is None else str(bound), total))
        lengths.add_metric([clock], buckets, histogram.seconds)
        longest.add_metric([clock], histogram.longest(now))
    yield lengths
    yield longest
