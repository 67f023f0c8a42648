"""The time of coordinators: a clock that does not jump when the system's is set, and timers."""

from collections.abc import Callable, Hashable

from barnabas.clock import Clock
from barnabas.server.replication.loop_timers import LoopTimers


class CoordinatorClock:
    """Time for deadlines, and timestamps for records.

    A simulation overrides all of it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = 0

    def start(self) -> None:
        """Set the time of the deadlines by the wall clock, once, inside of the trio run."""
        self._offset_ms = self._clock.wall_ms() - LoopTimers.now_ms()

    def now_ms(self) -> int:
        """Return the time that deadlines are compared with."""
        return self._offset_ms + LoopTimers.now_ms()

    def stamp_ms(self) -> int:
        """Return the timestamp of a record."""
        return self._clock.wall_ms()

    def schedule(self, key: Hashable, deadline_ms: int, call: Callable[[], None]) -> None:
        """Call `call` at `deadline_ms`, in place of what was scheduled under `key` before."""
        LoopTimers.current().schedule(key, deadline_ms - self._offset_ms, call)

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        LoopTimers.current().cancel(key)
