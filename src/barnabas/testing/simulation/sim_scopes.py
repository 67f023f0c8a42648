"""Tasks, cancel scopes and nurseries of the simulation, with trio's rules."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from math import inf
from types import TracebackType, coroutine
from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from barnabas.testing.simulation.sim_tasks import SimTasks

Abort = Callable[[], bool]
"""Ends the wait of a cancelled task; returns False when the wait cannot end early."""


class CancelledTaskError(BaseException):
    """Raised in a task where it waits, when its scope was cancelled."""


@coroutine
def wait(abort: Abort) -> Generator[Abort, None, None]:
    """Wait until `SimTask.resume`."""
    yield abort


class SimTask:
    """One coroutine, and the innermost scope that it is in."""

    __slots__ = ("abort", "coroutine", "ended", "outcome", "scope", "tasks")

    def __init__(
        self,
        tasks: "SimTasks",
        coroutine: Coroutine[Any, Any, Any],
        scope: "SimScope",
        ended: Callable[["SimTask", BaseException | None], None],
    ) -> None:
        self.tasks = tasks
        self.coroutine = coroutine
        self.scope = scope
        self.ended = ended
        self.abort: Abort | None = None
        self.outcome: BaseException | None = None
        scope.members[self] = None

    def abort_wait(self) -> None:
        """Raise the cancellation in the task, if it waits and its wait can end."""
        abort = self.abort
        if abort is not None and abort():
            self.resume(CancelledTaskError())

    def resume(self, outcome: BaseException | None = None) -> None:
        """Let the task continue soon, with an exception where it waits, if there is one."""
        self.abort = None
        self.outcome = outcome
        self.tasks.ready(self)


class SimScope:
    """A cancel scope, or the root of all scopes of a process."""

    def __init__(self, tasks: "SimTasks", deadline: float, *, shield: bool) -> None:
        self.shield = shield
        self.cancel_called = False
        self.cancelled_caught = False
        self.members: dict[SimTask, None] = {}
        """The tasks whose innermost scope this is."""
        self._inner: dict[SimScope, None] = {}
        self._outer: SimScope | None = None
        self._tasks = tasks
        self._deadline = deadline
        self._timer = 0
        self._owner: SimTask | None = None

    @property
    def deadline(self) -> float:
        """The `current_time` at which the block ends, in seconds."""
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._owner is not None:
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer += 1
        if self._deadline < inf and not self.cancel_called:
            self._tasks.at(self._deadline, self._time_is_up, self._timer)

    def _time_is_up(self, timer: int) -> None:
        if timer == self._timer:
            self.cancel()

    def cancel(self) -> None:
        """End the block, now or when it is entered."""
        if not self.cancel_called:
            self.cancel_called = True
            self._deliver()

    def _deliver(self) -> None:
        for task in list(self.members):
            task.abort_wait()
        for scope in list(self._inner):
            if not scope.shield:
                scope._deliver()

    @property
    def is_effective(self) -> bool:
        """True when the tasks of the block are cancelled, by this scope or by one around it."""
        scope: SimScope | None = self
        while scope is not None:
            if scope.cancel_called:
                return True
            scope = None if scope.shield else scope._outer
        return False

    def __enter__(self) -> Self:
        task = self._owner = self._tasks.running
        outer = self._outer = task.scope
        outer._inner[self] = None
        del outer.members[task]
        self.members[task] = None
        task.scope = self
        self._set_timer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        task, outer = self._owner, self._outer
        if task is None or outer is None or isinstance(error, GeneratorExit):
            return False
        self._owner = None
        self._timer += 1
        self.members.pop(task, None)
        outer._inner.pop(self, None)
        outer.members[task] = None
        task.scope = outer
        is_for_another = not self.shield and outer.is_effective
        if error is None or not self.cancel_called or is_for_another:
            return False
        remaining = _without_cancellation(error)
        self.cancelled_caught = remaining is not error
        if remaining is not None and remaining is not error:
            raise remaining
        return self.cancelled_caught


def _without_cancellation(error: BaseException) -> BaseException | None:
    """Return what remains of an exception, or of a group of them, without cancellations."""
    if isinstance(error, CancelledTaskError):
        return None
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        cancelled, remaining = group.split(CancelledTaskError)
        return group if cancelled is None else remaining
    return error


class SimNursery:
    """A block that owns the tasks started in it."""

    def __init__(self, tasks: "SimTasks") -> None:
        self.cancel_scope = SimScope(tasks, inf, shield=False)
        self._tasks = tasks
        self._children = 0
        self._errors: list[BaseException] = []
        self._parent: SimTask | None = None

    def start_soon(self, function: Callable[..., Awaitable[Any]], /, *args: Any) -> None:
        """Start a task."""
        self._children += 1
        self._tasks.spawn(function, args, self.cancel_scope, self._ended)

    async def start(self, function: Callable[..., Awaitable[Any]], /, *args: Any) -> None:
        """Start a task, and return when it has called `started`, or raise its error before that."""
        status = _Status(self._tasks)

        async def run() -> None:
            with status.scope:
                await function(*args, task_status=status)

        def ended(task: SimTask, error: BaseException | None) -> None:
            if status.is_started:
                self._ended(task, error)
            else:
                self._ended(task, None)
                status.failed(error or RuntimeError("the task ended before it had started"))

        self._children += 1
        self._tasks.spawn(run, (), self.cancel_scope, ended)
        await status.wait()

    def _ended(self, task: SimTask, error: BaseException | None) -> None:
        self._children -= 1
        if error is not None:
            self._failed(error)
        if not self._children and self._parent is not None:
            parent, self._parent = self._parent, None
            parent.resume()

    def _failed(self, error: BaseException) -> None:
        self._errors.append(error)
        self.cancel_scope.cancel()

    async def __aenter__(self) -> Self:
        self.cancel_scope.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if isinstance(error, GeneratorExit):
            return False
        if error is not None:
            self._failed(error)
        if self._children:
            self._parent = self._tasks.running
            await wait(self._cancelled)
        combined = self._combined()
        kind = None if combined is None else type(combined)
        if self.cancel_scope.__exit__(kind, combined, None) or combined is None:
            return True
        raise combined

    def _cancelled(self) -> bool:
        """Note that the block was cancelled; it still waits for its tasks."""
        self._failed(CancelledTaskError())
        return False

    def _combined(self) -> BaseException | None:
        defects = [error for error in self._errors if not isinstance(error, CancelledTaskError)]
        if defects:
            return BaseExceptionGroup("errors of the tasks of a nursery", defects)
        return self._errors[0] if self._errors else None


class _Status:
    """The start of one task: `wait` returns when it has started, or raises its error."""

    def __init__(self, tasks: "SimTasks") -> None:
        self.scope = SimScope(tasks, inf, shield=False)
        self.is_started = False
        self._tasks = tasks
        self._error: BaseException | None = None
        self._waiter: SimTask | None = None
        self._is_cancelled = False

    def started(self) -> None:
        """Report that the task is ready."""
        self.is_started = True
        self._wake()

    def failed(self, error: BaseException) -> None:
        """The task has ended before it had started."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.resume()

    async def wait(self) -> None:
        if not self.is_started and self._error is None:
            self._waiter = self._tasks.running
            await wait(self._cancelled)
        if self._is_cancelled and not self.is_started:
            raise CancelledTaskError
        if self._error is not None:
            raise self._error

    def _cancelled(self) -> bool:
        """Cancel the task that starts, and wait for its end."""
        self._is_cancelled = True
        self.scope.cancel()
        return False
