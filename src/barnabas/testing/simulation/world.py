"""Time and chance of a simulation: one heap of events, one seed.

All times of the world are in µs. A `Process` is a life of a node: its timers and messages stop with
it, wait while it is paused, and use its own clocks.
"""

import random
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any
from zlib import crc32

from barnabas.clock import Clock
from barnabas.tasks.current_world import current
from barnabas.testing.simulation.rare_states import RareStates
from barnabas.testing.simulation.sim_tasks import SimTasks

Action = Callable[..., None]


class World:
    """Runs events in the order of their times; events of one time in the order of their creation.

    `trace` is a hash of all that was noted with `note`: two runs of one seed have the same trace.
    `rare` counts the rare states that were reached.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_us = 0
        self.events = 0
        self.trace = 0
        self.rare = RareStates()
        self.log: Callable[[str], None] | None = None
        self.failure: Exception | None = None
        self.lives: list[SimTasks] = []
        """The tasks of all lives of all processes, the ended ones too: they must not be closed."""
        self._heap: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._number = 0

    @property
    def now_ms(self) -> int:
        """The time in ms."""
        return self.now_us // 1000

    def stream(self, name: str) -> random.Random:
        """Return a separate random stream for one part, so that the other parts keep theirs."""
        return random.Random(f"{name} {self.seed}")

    def after(self, delay_us: int, action: Action, *args: Any) -> None:
        """Call `action` after a delay."""
        self._number += 1
        heappush(self._heap, (self.now_us + delay_us, self._number, action, args))

    def run(self, for_ms: int) -> None:
        """Run the events of the next `for_ms` ms. Raises the error given to `fail`."""
        end, heap = self.now_us + for_ms * 1000, self._heap
        while heap and heap[0][0] <= end:
            self.now_us, _, action, args = heappop(heap)
            self.events += 1
            action(*args)
            if self.failure is not None:
                raise self.failure
        self.now_us = end

    def fail(self, failure: Exception) -> None:
        """End the run with this error after the event in progress, also if a core catches it."""
        self.failure = self.failure or failure

    def note(self, *what: object) -> None:
        """Add something that happened to the trace, and to the log if there is one."""
        self.trace = crc32(repr((self.now_us, what)).encode(), self.trace)
        if self.log is not None:
            self.log(f"{self.now_us / 1e6:10.6f} " + " ".join(str(part) for part in what))

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return probability > 0 and self.random.random() < probability


class SimulatedCrashError(BaseException):
    """The process was killed between two effects; no handler of the program catches it."""


class Process:
    """A process of the simulated cluster; it runs between `start` and `kill`."""

    def __init__(self, world: World, node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.is_running = False
        self.life = 0
        self.clock_rate = 1.0
        self.clock = Clock(lambda: self.now_ms, lambda: self.now_ms)
        self.tasks = SimTasks(self)
        """The tasks of this life."""
        self.disk_ms = (0.05, 0.5)
        """The shortest and the longest time of a call that may block."""
        self.effects_before_crash: int | None = None
        self._is_crashing = False
        self.on_kill: list[Action] = []
        self._paused_until_us = 0
        self._waiting: list[tuple[int, Action, tuple[Any, ...]]] = []

    def __repr__(self) -> str:
        return f"node {self.node_id}"

    @property
    def now_ms(self) -> int:
        """The process's monotonic clock, which may run fast or slow."""
        return int(self.world.now_us * self.clock_rate) // 1000

    @property
    def is_paused(self) -> bool:
        """True while the process is stopped with SIGSTOP."""
        return self.world.now_us < self._paused_until_us

    def start(self) -> None:
        """Begin a new life."""
        self.life += 1
        self.is_running = True
        self.tasks = SimTasks(self)
        self.world.lives.append(self.tasks)
        self.effects_before_crash = None
        self._is_crashing = False
        self._paused_until_us = 0
        self._waiting.clear()

    def kill(self) -> None:
        """End the life at once; the observers in `on_kill` are called."""
        if self.is_running:
            self.end_life()
            for observer in self.on_kill:
                observer()

    def end_life(self) -> None:
        """End the life at once, without the observers of a kill: the power is lost."""
        if self.is_running:
            self.is_running = False
            self.life += 1

    def pause(self, for_ms: int) -> None:
        """Stop the process for a time, as SIGSTOP does; its events wait."""
        self._paused_until_us = self.world.now_us + for_ms * 1000
        self.world.after(for_ms * 1000, self._end_pause)

    def _end_pause(self) -> None:
        if not self.is_paused:
            self.resume()

    def resume(self) -> None:
        """End a pause: the events that wait come now, in their order."""
        self._paused_until_us = 0
        self.world.after(0, self._run_waiting)

    def _run_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for life, action, args in waiting:
            self.call(life, action, args)

    def after_ms(self, delay_ms: float, action: Action, *args: Any) -> None:
        """Call `action` after a delay of the process's clock, unless the life ends before."""
        delay_us = int(max(0.0, delay_ms) * 1000 / self.clock_rate)
        self.world.after(delay_us, self.call, self.life, action, args)

    def call(self, life: int, action: Action, args: tuple[Any, ...] = ()) -> None:
        """Call `action` now if this life still runs, or at the end of a pause."""
        if not self.is_running or life != self.life:
            return
        if self.is_paused or self._waiting:
            self._waiting.append((life, action, args))
            return
        before, current.world = current.world, self.tasks
        try:
            action(*args)
        except SimulatedCrashError:
            self._is_crashing = True
        finally:
            current.world = before
        if self._is_crashing and self.is_running and life == self.life:
            self.world.note(self, "crashes between two effects")
            self.kill()

    def runs(self, life: int) -> bool:
        """True while this life runs, and no effect has ended it."""
        return self.is_running and life == self.life and not self._is_crashing

    def effect(self) -> None:
        """Mark the place before an effect; raises SimulatedCrashError to end the process.

        From then on each further effect raises it, until the event in progress is over.
        """
        if self.effects_before_crash is not None:
            self.effects_before_crash -= 1
            self._is_crashing = self.effects_before_crash < 0
        if self._is_crashing:
            raise SimulatedCrashError

    def thread_times_s(self) -> tuple[float, float]:
        """Return how long a call that may block takes before and after its effect, in seconds."""
        low, high = self.disk_ms
        random = self.world.random
        seconds = (low + random.random() * (high - low)) / 1000
        share = random.random()
        return seconds * share, seconds * (1 - share)
