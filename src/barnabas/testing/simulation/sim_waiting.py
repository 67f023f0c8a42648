"""Events, locks, conditions and limits of threads, for the tasks of the simulation."""

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING

from barnabas.testing.simulation.sim_scopes import SimTask, wait

if TYPE_CHECKING:
    from barnabas.testing.simulation.sim_tasks import SimTasks


class SimEvent:
    """Something that happens once."""

    __slots__ = ("_is_set", "_tasks", "_waiting")

    def __init__(self, tasks: "SimTasks") -> None:
        self._tasks = tasks
        self._is_set = False
        self._waiting: dict[SimTask, None] = {}

    def set(self) -> None:
        """Note that it has happened."""
        self._is_set = True
        waiting, self._waiting = self._waiting, {}
        for task in waiting:
            task.resume()

    def is_set(self) -> bool:
        """True when it has happened."""
        return self._is_set

    async def wait(self) -> None:
        """Return when it has happened."""
        if self._is_set:
            await self._tasks.checkpoint()
            return
        task = self._tasks.running
        self._waiting[task] = None

        def abort() -> bool:
            self._waiting.pop(task, None)
            return True

        await wait(abort)


class SimLimiter:
    """A number of tokens; waiters get them in their order."""

    def __init__(self, tasks: "SimTasks", total: int) -> None:
        self.total_tokens = total
        self._tasks = tasks
        self._free = total
        self._waiting: deque[SimTask] = deque()

    def locked(self) -> bool:
        """True while all tokens are taken."""
        return not self._free

    async def take(self, *, can_end: bool = True) -> None:
        """Take a token, when one is free."""
        if self._free:
            self._free -= 1
            return
        task = self._tasks.running
        self._waiting.append(task)

        def abort() -> bool:
            if can_end:
                self._waiting.remove(task)
            return can_end

        await wait(abort)

    def give(self) -> None:
        """Put a token back, or hand it to the next task that waits for one."""
        if self._waiting:
            self._waiting.popleft().resume()
        else:
            self._free += 1

    async def __aenter__(self) -> None:
        await self.take()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.give()


class SimLock(SimLimiter):
    """A lock: a single token."""

    def __init__(self, tasks: "SimTasks") -> None:
        super().__init__(tasks, 1)


class SimCondition:
    """A lock whose holder can wait for a notification."""

    def __init__(self, tasks: "SimTasks") -> None:
        self._lock = SimLock(tasks)
        self._tasks = tasks
        self._notified = SimEvent(tasks)

    async def wait(self) -> None:
        """Release the lock, wait for a notification, and take the lock again."""
        notified = self._notified
        self._lock.give()
        try:
            await notified.wait()
        finally:
            await self._lock.take(can_end=False)

    def notify_all(self) -> None:
        """Wake all that wait."""
        notified, self._notified = self._notified, SimEvent(self._tasks)
        notified.set()

    async def __aenter__(self) -> None:
        await self._lock.take()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.give()
