"""The common part of the simulations: a clock with events, and a network that delays and loses."""

import heapq
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar


class ViolationError(AssertionError):
    """An invariant does not hold."""


class FaultyWorld:
    """One seed's clock and network; while `faulty`, messages are late or lost.

    A subclass sets `coordinator`.
    """

    # A message takes less than this, in ms; one in ten takes long.
    LATE_MS_MAX: ClassVar[int] = 4_000

    coordinator: Any

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.faulty = True
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.sequence = 0
        self.waiting: dict[int, Callable[[Any], None]] = {}

    def at(self, delay_ms: int, event: Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (self.now_ms + delay_ms, self.sequence, event))

    def delay_ms(self) -> int | None:
        """Return how long a message takes; None when it is lost."""
        if not self.faulty:
            return 5
        draw = self.random.random()
        if draw < 0.03:
            return None
        if draw < 0.9:
            return self.random.randrange(1, 50)
        return self.random.randrange(50, self.LATE_MS_MAX)

    def deliver(self) -> None:
        """Send the coordinator's replies on their way."""
        for token, response in self.coordinator.replies:
            self.replied(response)
            answer = self.waiting.pop(token, None)
            delay_ms = self.delay_ms()
            if answer is not None and delay_ms is not None:
                self.at(delay_ms, lambda answer=answer, response=response: answer(response))
        self.coordinator.replies.clear()

    def replied(self, response: Any) -> None:
        """A reply leaves the coordinator; checkers may look at it."""

    def run_until(self, end_ms: int) -> None:
        while True:
            wakeup_ms = self.coordinator.shard.next_wakeup()
            next_ms = self.events[0][0] if self.events else end_ms
            if wakeup_ms is not None and wakeup_ms <= min(next_ms, end_ms):
                self.now_ms = max(self.now_ms, wakeup_ms)
                self.coordinator.now_ms = self.now_ms
                self.coordinator.settle()
                self.deliver()
            elif self.events and next_ms <= end_ms:
                self.now_ms, _, event = heapq.heappop(self.events)
                event()
            else:
                break
        self.now_ms = self.coordinator.now_ms = end_ms


class FaultyClient:
    """A client that comes and goes; lives and steps have numbers, which show late messages."""

    world: FaultyWorld

    def __init__(self) -> None:
        self.is_up = False
        self.life = 0
        self.step = 0

    def next_step(self) -> Callable[[], bool]:
        """Moves on; True when it is still there."""
        self.step += 1
        life, step = self.life, self.step
        return lambda: self.life == life and self.step == step

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        is_current = self.next_step()
        self.world.at(delay_ms, lambda: action() if is_current() else None)
