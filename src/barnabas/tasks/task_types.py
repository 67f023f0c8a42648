"""The types of `barnabas.tasks`: what trio's objects and those of a simulation have in common."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

T = TypeVar("T")


class Event(Protocol):
    """Something that happens once; tasks can wait for it."""

    def set(self) -> None:
        """Note that it has happened; the waiting tasks continue."""
        ...

    def is_set(self) -> bool:
        """True when it has happened."""
        ...

    async def wait(self) -> None:
        """Return when it has happened."""
        ...


class CancelScope(Protocol):
    """A block of a task that can be ended from outside, or by a deadline."""

    @property
    def deadline(self) -> float:
        """The `current_time` at which the block ends, in seconds."""
        ...

    @deadline.setter
    def deadline(self, deadline: float, /) -> None: ...

    def cancel(self) -> None:
        """End the block, now or when it is entered."""
        ...

    @property
    def cancel_called(self) -> bool:
        """True when the block was cancelled, or its deadline has passed."""
        ...

    @property
    def cancelled_caught(self) -> bool:
        """True when the block ended early."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> bool: ...


class TaskStatus(Protocol):
    """Given to a task that `Nursery.start` waits for."""

    def started(self) -> None:
        """Report that the task is ready."""
        ...


class Nursery(Protocol):
    """A block that owns the tasks started in it."""

    @property
    def cancel_scope(self) -> CancelScope:
        """The scope of the block and of all its tasks."""
        ...

    def start_soon(self, function: Callable[..., Awaitable[Any]], /, *args: Any) -> None:
        """Start a task."""
        ...

    async def start(self, function: Callable[..., Awaitable[Any]], /, *args: Any) -> None:
        """Start a task, and return when it has called `started` of its argument `task_status`."""
        ...


class Lock(Protocol):
    """A lock that one task holds at a time."""

    def locked(self) -> bool:
        """True while a task holds it."""
        ...

    async def __aenter__(self) -> None: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...


class Condition(Protocol):
    """A lock whose holder can wait for a notification."""

    async def wait(self) -> None:
        """Release the lock, wait for a notification, and take the lock again."""
        ...

    def notify_all(self) -> None:
        """Wake all that wait; the caller holds the lock."""
        ...

    async def __aenter__(self) -> None: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...


class Limiter(Protocol):
    """A limit of the calls that run in threads at the same time."""

    @property
    def total_tokens(self) -> int | float:
        """The limit."""
        ...


class World(Protocol):
    """The world in which the calling task runs, as `barnabas.tasks` uses it."""

    def current_time(self) -> float:
        """Return the seconds of a clock that only advances."""
        ...

    def event(self) -> Event:
        """Return a new event."""
        ...

    def lock(self) -> Lock:
        """Return a new lock."""
        ...

    def condition(self) -> Condition:
        """Return a new condition."""
        ...

    def limiter(self, total: int, /) -> Limiter:
        """Return a new limit of calls in threads."""
        ...

    def cancel_scope(self, deadline: float, shield: bool, /) -> CancelScope:
        """Return a new scope."""
        ...

    def open_nursery(self) -> AbstractAsyncContextManager[Nursery]:
        """Return a new nursery."""
        ...

    async def sleep(self, seconds: float, /) -> None:
        """Wait."""
        ...

    async def sleep_forever(self) -> None:
        """Wait until cancelled."""
        ...

    async def checkpoint(self) -> None:
        """Let other tasks run."""
        ...

    async def checkpoint_if_cancelled(self) -> None:
        """End a cancelled task."""
        ...

    async def run_in_thread(
        self, call: Callable[..., T], args: tuple[Any, ...], limiter: Limiter, /
    ) -> T:
        """Return the result of a call that may block."""
        ...

    async def suspend(
        self, start: Callable[[Callable[[], None]], None], leave: Callable[[], None], /
    ) -> None:
        """Wait for one call."""
        ...

    def spawn_system_task(
        self, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], /
    ) -> None:
        """Run a task outside of all nurseries."""
        ...

    def local(self, key: type[T], /) -> T:
        """Return the world's own instance of a class."""
        ...


class _Ignored:
    """The status of a task that was started by `start_soon`."""

    def started(self) -> None:
        """Do nothing."""


IGNORED: Final[TaskStatus] = _Ignored()
"""The default of the argument `task_status` of a task that `Nursery.start` can wait for."""
