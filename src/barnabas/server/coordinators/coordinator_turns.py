"""The decisions of one coordinator partition, one after the other.

Most decisions end at once. A long one lets the loop run after every slice, and later decisions wait
until it ends. A decision therefore sees one state from its beginning to its end.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from barnabas import tasks
from barnabas.coordinator.core.coordinator_output import Decision
from barnabas.coordinator.core.steps import Steps

# How long decisions may hold the loop before other tasks run, not counting the step in progress.
_SLICE_S = 0.001


class Waiter:
    """A request that waits for its reply; shards know it as a token."""

    __slots__ = ("_event", "_result")

    def __init__(self) -> None:
        self._event: tasks.Event | None = None
        self._result: Any = None

    @property
    def is_answered(self) -> bool:
        """True when the reply is there."""
        return self._result is not None

    def set(self, result: Any) -> None:
        """Set the response, or an exception instead of it; the first one holds."""
        if self._result is None:
            self._result = result
            if self._event is not None:
                self._event.set()

    async def wait(self) -> Any:
        """Return the response, at once when it is there. Raises a given exception."""
        if self._result is None:
            self._event = tasks.event()
            await self._event.wait()
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


@attrs.frozen
class ProducerBatch:
    """The transactional producer that a batch is written for."""

    producer_id: int
    producer_epoch: int


@attrs.define
class Turn:
    """One decision to make; a refusal goes to `waiter`, and records belong to `producer`."""

    decide: Callable[[], Decision]
    waiter: Waiter | None = None
    producer: ProducerBatch | None = None


class TurnQueue:
    """Runs turns in the order of their submission, a slice at a time.

    `carry_out` takes a turn to its end and handles its errors. `resume` is called when a slice
    ends with work left: it must call `work` until that returns False.
    """

    def __init__(
        self,
        carry_out: Callable[[Turn], Steps[None]],
        resume: Callable[[], None],
    ) -> None:
        self._carry_out = carry_out
        self._resume = resume
        self._turns: deque[Turn] = deque()
        self._work: Steps[None] | None = None
        self._slice_end = 0.0  # a `current_time`

    @property
    def is_busy(self) -> bool:
        """True while a turn is being carried out."""
        return self._work is not None

    def is_slice_over(self) -> bool:
        """True when the turn in progress should yield."""
        return tasks.current_time() >= self._slice_end

    def submit(self, turn: Turn) -> None:
        """Carry out a turn, at once unless others come first."""
        self._turns.append(turn)
        if self._work is None:
            self._work = self._run()
            if self.work():
                self._resume()

    def work(self) -> bool:
        """Carry out turns for a slice; return True when there is more to do."""
        self._slice_end = tasks.current_time() + _SLICE_S
        work = self._work
        while work is not None:
            next(work, None)
            work = self._work
            if tasks.current_time() >= self._slice_end:
                break
        return work is not None

    def clear(self) -> list[Turn]:
        """Remove and return the turns that have not begun."""
        turns = list(self._turns)
        self._turns.clear()
        return turns

    def _run(self) -> Steps[None]:
        try:
            while self._turns:
                yield from self._carry_out(self._turns.popleft())
                if self._turns:
                    yield
        finally:
            self._work = None
