"""The clock, the timers and the waiters of coordinators in the simulation."""

from collections.abc import Callable, Hashable
from typing import Any

from barnabas.clock import Clock
from barnabas.server.coordinators.coordinator_clock import CoordinatorClock
from barnabas.server.coordinators.coordinator_turns import Waiter
from barnabas.testing.simulation.world import Process

_EPOCH_MS = 1_600_000_000_000


class SimCoordinatorClock(CoordinatorClock):
    """The clock of one life of a process; it has the timers of commit waits as well."""

    def __init__(self, process: Process) -> None:
        super().__init__(Clock(self.now_ms, self.now_ms))
        self._process = process
        self._numbers: dict[Hashable, int] = {}
        self._count = 0

    def now_ms(self) -> int:
        """Return the time that deadlines are compared with."""
        return _EPOCH_MS + self._process.now_ms

    def schedule(self, key: Hashable, deadline_ms: int, call: Callable[[], None]) -> None:
        """Call `call` at `deadline_ms`, in place of what was scheduled under `key` before."""
        self._count += 1
        self._numbers[key] = self._count
        self._process.after_ms(deadline_ms - self.now_ms(), self._fire, key, self._count, call)

    def _fire(self, key: Hashable, number: int, call: Callable[[], None]) -> None:
        if self._numbers.get(key) == number:
            del self._numbers[key]
            call()

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        self._numbers.pop(key, None)

    def after(self, delay_ms: int, call: Callable[[], None]) -> Hashable:
        """Call `call` in `delay_ms`; return the key to cancel it by."""
        key = object()
        self.schedule(key, self.now_ms() + delay_ms, call)
        return key

    def slice_s(self) -> float:
        """Return 0: a decision never holds the loop for long, so that a seed repeats exactly."""
        return 0.0


class SimWaiter(Waiter):
    """Calls `done` with the result."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[["SimWaiter", Any], None]) -> None:
        super().__init__()
        self._callback = callback

    def set(self, result: Any) -> None:
        """Set the response, or an exception instead of it; the first one holds."""
        if not self.is_answered:
            super().set(result)
            self._callback(self, result)
