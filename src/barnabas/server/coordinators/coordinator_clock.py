"""The clock of coordinators: wall-clock milliseconds that do not jump when the clock is set."""

from collections.abc import Callable

from barnabas.server.replication.loop_timers import LoopTimers


class CoordinatorClock:
    """Time for deadlines, and timestamps for records; `wall_ms` is the system's clock."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._offset_ms = 0

    def start(self) -> None:
        """Set the clock by the system's, once, inside of the trio run."""
        self._offset_ms = self._wall_ms() - LoopTimers.now_ms()

    def now_ms(self) -> int:
        """Return the time that deadlines are compared with."""
        return self._offset_ms + LoopTimers.now_ms()

    def stamp_ms(self) -> int:
        """Return the timestamp of a record."""
        return self._wall_ms()

    def loop_ms(self, time_ms: int) -> int:
        """Return the time of the loop's timers at `time_ms` of this clock."""
        return time_ms - self._offset_ms
