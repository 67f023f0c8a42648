"""Deadlines of requests that wait without a task of their own.

One heap and, while it holds anything, one task for all of them. What is done in time stays in the
heap, emptied, until its deadline.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final

import trio

_CURRENT: Final = trio.lowlevel.RunVar["Expiry"]("barnabas.expiry")


class Deadline:
    """What to call when time is up; `cancel` once it no longer matters."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Never call it."""
        self.call = None


class Expiry:
    """The deadlines of one trio run; `Expiry.current()` is the run's own."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline]] = []
        self._numbers = count()
        self._is_running = False
        self._scope: trio.CancelScope | None = None

    @classmethod
    def current(cls) -> "Expiry":
        """The one of this trio run."""
        try:
            return _CURRENT.get()
        except LookupError:
            found = cls()
            _CURRENT.set(found)
            return found

    def after(self, seconds: float, call: Callable[[], None]) -> Deadline:
        """Call `call` from the loop in `seconds`, unless cancelled before."""
        deadline = Deadline(call)
        at = trio.current_time() + seconds
        heappush(self._heap, (at, next(self._numbers), deadline))
        if not self._is_running:
            self._is_running = True
            trio.lowlevel.spawn_system_task(self._run)
        elif self._heap[0][2] is deadline and self._scope is not None:
            self._scope.deadline = at
        return deadline

    async def _run(self) -> None:
        heap = self._heap
        while heap:
            with trio.CancelScope(deadline=heap[0][0]) as self._scope:
                await trio.sleep_forever()
            self._scope = None
            now = trio.current_time()
            while heap and heap[0][0] <= now:
                _, _, deadline = heappop(heap)
                if deadline.call is not None:
                    deadline.call()
        self._is_running = False
