"""Deadlines without tasks, on the clock of `barnabas.tasks`.

One heap (`Timers`) and, while it holds anything, one task serve the whole run: commit waits, and
the wake-ups of coordinators.
"""

import logging
from collections.abc import Callable, Hashable
from itertools import count
from math import ceil

from barnabas import tasks
from barnabas.coordinator.core.coordinator_timers import Timers

logger = logging.getLogger(__name__)

Call = Callable[[], None]


class LoopTimers:
    """The timers of one event loop; `LoopTimers.current()` returns the loop's own."""

    def __init__(self) -> None:
        self._timers: Timers[Call] = Timers()
        self._keys = count()
        self._is_running = False
        self._scope: tasks.CancelScope | None = None

    @classmethod
    def current(cls) -> "LoopTimers":
        """Return the timers of this event loop."""
        return tasks.local(cls)

    @staticmethod
    def now_ms() -> int:
        """Return the milliseconds that have passed, allowing for the rounding of a float."""
        return int(tasks.current_time() * 1000 + 0.001)

    def after(self, delay_ms: int, call: Call) -> Hashable:
        """Call `call` from the loop in `delay_ms`; return the key to cancel it by."""
        key = next(self._keys)
        self.schedule(key, ceil(tasks.current_time() * 1000) + delay_ms, call)
        return key

    def schedule(self, key: Hashable, deadline_ms: int, call: Call) -> None:
        """Call `call` at `deadline_ms`, in place of what was scheduled under `key` before."""
        self._timers.schedule(key, deadline_ms, call)
        if not self._is_running:
            self._is_running = True
            tasks.spawn_system_task(self._run)
        elif self._scope is not None and deadline_ms / 1000 < self._scope.deadline:
            self._scope.deadline = deadline_ms / 1000

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        self._timers.cancel(key)

    async def _run(self) -> None:
        while (wakeup_ms := self._timers.next_wakeup()) is not None:
            with tasks.cancel_scope(deadline=wakeup_ms / 1000) as self._scope:
                await tasks.sleep_forever()
            self._scope = None
            while (call := self._timers.pop_due(self.now_ms())) is not None:
                try:
                    call()
                except Exception:  # an error of one timer must not stop the others
                    logger.exception("timer failed call=%r", call)
        self._is_running = False
