"""`barnabas.tasks` for one life of a simulated process: coroutines on the heap of events.

A coroutine runs until it waits. What it waits for puts it back into the queue of the process, and
the queue is worked off at the same simulated time, in an order that the seed draws. Time passes
only between events. Cancellation has trio's rules: a cancelled task gets an exception where it
waits, and the outermost cancelled scope takes that exception.

Nothing of a killed process runs: its coroutines are neither resumed nor closed, because Python
would run their `finally` blocks. `dispose` closes them when the simulation is over.
"""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from math import ceil, inf
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas.tasks.current_world import current
from barnabas.tasks.task_types import Limiter
from barnabas.testing.simulation.sim_scopes import (
    CancelledTaskError,
    SimNursery,
    SimScope,
    SimTask,
    wait,
)
from barnabas.testing.simulation.sim_waiting import SimCondition, SimEvent, SimLimiter, SimLock

if TYPE_CHECKING:
    from barnabas.testing.simulation.world import Process

T = TypeVar("T")

_STEPS_AT_ONCE_MAX: Final = 200_000
"""More steps than this at one simulated time are a loop without end."""


class EndlessStepsError(Exception):
    """The tasks of a process wake each other without end, and no time passes."""


class SimTasks:
    """The tasks of one life of a process (`barnabas.tasks.task_types.World`)."""

    def __init__(self, process: "Process") -> None:
        self.process = process
        self._life = process.life
        self._random = process.world.stream(f"tasks {process.node_id} {process.life}")
        self._queue: list[SimTask] = []
        self._is_due = False
        self._steps = (0, 0)  # the simulated time, and the number of steps at it
        self._running: SimTask | None = None
        self._locals: dict[type[Any], Any] = {Random: self._random}
        self._alive: dict[SimTask, None] = {}
        self.root = SimScope(self, inf, shield=False)

    # Tasks

    @property
    def running(self) -> SimTask:
        """The task that runs now. Raises RuntimeError outside of tasks."""
        if self._running is None:
            raise RuntimeError("only a task can wait")
        return self._running

    def spawn(
        self,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        scope: SimScope,
        ended: Callable[[SimTask, BaseException | None], None],
    ) -> None:
        """Start a task in a scope; `ended` is called with its error, or None."""
        coroutine: Any = function(*args)
        task = SimTask(self, coroutine, scope, ended)
        self._alive[task] = None
        self.ready(task)

    def ready(self, task: SimTask) -> None:
        """Let a task continue at the present time, after the event in progress."""
        self._queue.append(task)
        if not self._is_due:
            self._is_due = True
            self.process.world.after(0, self.process.call, self._life, self._work)

    def _work(self) -> None:
        process, queue = self.process, self._queue
        self._is_due = False
        self._count_steps(len(queue))
        self._queue = []
        if len(queue) > 1:
            self._random.shuffle(queue)
        for task in queue:
            self._step(task)
            if not process.runs(self._life):
                return

    def _count_steps(self, number: int) -> None:
        now_us, steps = self._steps
        world = self.process.world
        steps = steps + number if now_us == world.now_us else number
        self._steps = world.now_us, steps
        if steps > _STEPS_AT_ONCE_MAX:
            world.fail(EndlessStepsError(f"{self.process} at {world.now_us} µs"))

    def _step(self, task: SimTask) -> None:
        """Run a task until it waits or ends."""
        outcome, task.outcome = task.outcome, None
        coroutine: Coroutine[Any, Any, Any] = task.coroutine
        self._running = task
        try:
            abort = coroutine.send(None) if outcome is None else coroutine.throw(outcome)
        except StopIteration:
            self._end(task, None)
        except Exception as error:
            self._end(task, error)
        except (CancelledTaskError, BaseExceptionGroup) as error:
            self._end(task, error)
        else:
            task.abort = abort
            if task.scope.is_effective:
                task.abort_wait()
        finally:
            self._running = None

    def _end(self, task: SimTask, error: BaseException | None) -> None:
        del self._alive[task]
        task.scope.members.pop(task, None)
        task.ended(task, error)

    def dispose(self) -> None:
        """Close what is left of the tasks: the simulation is over."""
        before, current.world = current.world, self
        try:
            while self._alive:  # a task that ends may start another
                task, _ = self._alive.popitem()
                with suppress(BaseException):
                    task.coroutine.close()
        finally:
            current.world = before

    # `barnabas.tasks`

    def current_time(self) -> float:
        """Return the seconds of the process's clock."""
        process = self.process
        return process.world.now_us * process.clock_rate / 1e6

    def event(self) -> SimEvent:
        """Return a new event."""
        return SimEvent(self)

    def lock(self) -> SimLock:
        """Return a new lock."""
        return SimLock(self)

    def condition(self) -> SimCondition:
        """Return a new condition."""
        return SimCondition(self)

    def limiter(self, total: int) -> SimLimiter:
        """Return a new limit of calls in threads."""
        return SimLimiter(self, total)

    def cancel_scope(self, deadline: float, shield: bool) -> SimScope:
        """Return a new scope."""
        return SimScope(self, deadline, shield=shield)

    def open_nursery(self) -> SimNursery:
        """Return a new nursery."""
        return SimNursery(self)

    def at(self, deadline: float, call: Callable[..., None], *args: Any) -> None:
        """Call `call` when the process's clock has reached a time in seconds."""
        self.after(deadline - self.current_time(), call, *args)

    def after(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        """Call `call` after seconds of the process's clock."""
        process = self.process
        # A timer is never early; in ms, the time of a deadline may be rounded down.
        delay_us = max(0, ceil(seconds * 1e6 / process.clock_rate)) + 1
        process.world.after(delay_us, process.call, self._life, call, args)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        if seconds <= 0:
            await self.checkpoint()
        else:
            await self._pause(seconds, can_end=True)

    async def _pause(self, seconds: float, *, can_end: bool) -> None:
        task = self.running
        is_over = False

        def wake() -> None:
            if not is_over:
                task.resume()

        def abort() -> bool:
            nonlocal is_over
            is_over = can_end
            return can_end

        self.after(seconds, wake)
        await wait(abort)

    async def sleep_forever(self) -> None:
        """Wait until cancelled."""
        await wait(lambda: True)

    async def checkpoint(self) -> None:
        """Let other tasks run."""
        task = self.running
        if task.scope.is_effective:
            raise CancelledTaskError
        self.ready(task)
        await wait(lambda: False)

    async def checkpoint_if_cancelled(self) -> None:
        """End a cancelled task."""
        if self.running.scope.is_effective:
            await self.checkpoint()

    async def run_in_thread(
        self, call: Callable[..., T], args: tuple[Any, ...], limiter: Limiter
    ) -> T:
        """Run a call that may block; it takes the time that the process's disk needs."""
        if not isinstance(limiter, SimLimiter):
            raise TypeError("the limiter belongs to another world")
        before_s, after_s = self.process.thread_times_s()
        async with limiter:
            await self._pause(before_s, can_end=False)
            self.process.effect()
            try:
                return call(*args)
            finally:
                await self._pause(after_s, can_end=False)

    async def suspend(
        self, start: Callable[[Callable[[], None]], None], leave: Callable[[], None]
    ) -> None:
        """Wait for one call."""

        def abort() -> bool:
            leave()
            return True

        start(self.running.resume)
        await wait(abort)

    def spawn_system_task(
        self, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...] = ()
    ) -> None:
        """Run a task outside of all nurseries; its failure is a defect of the program."""
        self.spawn(function, args, self.root, self._system_task_ended)

    def _system_task_ended(self, task: SimTask, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            self.process.world.fail(error)

    def provide(self, key: type[T], instance: T) -> None:
        """Make an instance the one that `local` returns for a class."""
        self._locals[key] = instance

    def local(self, key: type[T]) -> T:
        """Return the process's own instance of a class."""
        if key not in self._locals:
            self._locals[key] = key()
        return self._locals[key]
