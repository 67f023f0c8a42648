"""The time that the loop works on one request, for the quotas of request time.

An asynchronous handler waits for other work, for records or for replicas. Only its steps on the
loop count.
"""

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from time import perf_counter_ns
from typing import Any


class RequestTimer:
    """A stopwatch, which runs from the beginning."""

    __slots__ = ("_begun_ns", "_spent_ns")

    def __init__(self) -> None:
        self._spent_ns = 0
        self._begun_ns = perf_counter_ns()

    def resume(self) -> None:
        """Continue after `pause`."""
        self._begun_ns = perf_counter_ns()

    def pause(self) -> None:
        """Count nothing until `resume`."""
        self._spent_ns += perf_counter_ns() - self._begun_ns

    def elapsed_ns(self) -> int:
        """Return the time that a running stopwatch has counted."""
        return self._spent_ns + perf_counter_ns() - self._begun_ns

    def timed(self, work: Coroutine[Any, Any, Any]) -> "TimedWork":
        """Return work that has not begun; the stopwatch pauses until then, and while it waits."""
        self.pause()
        return TimedWork(work, self)


class TimedWork:
    """A coroutine whose steps on the loop a stopwatch counts; to be awaited once."""

    __slots__ = ("_timer", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], timer: RequestTimer) -> None:
        self._work = work
        self._timer = timer

    def __await__(self) -> Generator[Any, Any, Any]:
        """Do the work; the stopwatch runs at its end, however it ends."""
        work, timer = self._work, self._timer
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            timer.resume()
            try:
                awaited = step()
            except StopIteration as finished:
                return finished.value
            timer.pause()
            try:
                result = yield awaited
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                step = partial(work.throw, error)
            else:
                step = partial(work.send, result)

    def close(self) -> None:
        """End the work where it waits, or before it began."""
        self._work.close()
