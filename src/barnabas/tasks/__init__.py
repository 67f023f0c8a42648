"""Tasks, time and waiting, for code that runs in two worlds: the server and the simulation.

The functions have the names and the meaning of trio's. In a server they are trio's own. In a
simulation (`barnabas.testing.simulation`) they belong to a simulated process: its tasks are steps
on the heap of events of one seed, its clock is that of the seed, and after a kill nothing of it
runs, not even a finally block.

The sequences of the server (what is written, synced, sent, published and answered, in which order)
await only these functions, and what is handed to them: connections, files, other shells. Modules
that belong to one world (sockets, signals, processes, TLS) import trio itself.

What lives here: the functions, the types of what they return (`task_types`), and trio's world
(`trio_world`). This room imports no other one.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from math import inf
from typing import Any, TypeVar

from barnabas.tasks.current_world import current
from barnabas.tasks.task_types import (
    IGNORED,
    CancelScope,
    Condition,
    Event,
    Limiter,
    Lock,
    Nursery,
    TaskStatus,
)

__all__ = [
    "IGNORED",
    "CancelScope",
    "Condition",
    "Event",
    "Limiter",
    "Lock",
    "Nursery",
    "TaskStatus",
    "TimeIsUpError",
    "cancel_scope",
    "checkpoint",
    "checkpoint_if_cancelled",
    "condition",
    "current_time",
    "event",
    "fail_after",
    "limiter",
    "local",
    "lock",
    "move_on_after",
    "move_on_at",
    "open_nursery",
    "run_in_thread",
    "sleep",
    "sleep_forever",
    "sleep_until",
    "spawn_system_task",
    "suspend",
]

T = TypeVar("T")


class TimeIsUpError(Exception):
    """The block of a `fail_after` took longer than its time."""


def current_time() -> float:
    """Return the seconds of a clock that only advances."""
    return current.world.current_time()


def event() -> Event:
    """Return a new event that is not set."""
    return current.world.event()


def lock() -> Lock:
    """Return a new lock that is free; waiters get it in their order."""
    return current.world.lock()


def condition() -> Condition:
    """Return a new condition with its own lock."""
    return current.world.condition()


def limiter(total: int) -> Limiter:
    """Return a limit of calls of `run_in_thread` that run at the same time."""
    return current.world.limiter(total)


def cancel_scope(*, deadline: float = inf, shield: bool = False) -> CancelScope:
    """Return a scope whose block can be cancelled; `deadline` is a `current_time`, in seconds."""
    return current.world.cancel_scope(deadline, shield)


def move_on_at(deadline: float) -> CancelScope:
    """Return a scope that ends its block at a `current_time`, in seconds."""
    return current.world.cancel_scope(deadline, False)


def move_on_after(seconds: float) -> CancelScope:
    """Return a scope that ends its block when the time is up."""
    world = current.world
    return world.cancel_scope(world.current_time() + seconds, False)


@contextmanager
def fail_after(seconds: float) -> Generator[CancelScope]:
    """End the block when the time is up. Raises TimeIsUpError then."""
    with move_on_after(seconds) as scope:
        yield scope
    if scope.cancelled_caught:
        raise TimeIsUpError


def open_nursery() -> AbstractAsyncContextManager[Nursery]:
    """Return a nursery: its block ends when all tasks that were started in it have ended."""
    return current.world.open_nursery()


async def sleep(seconds: float) -> None:
    """Wait."""
    await current.world.sleep(seconds)


async def sleep_until(deadline: float) -> None:
    """Wait until a `current_time`, in seconds."""
    world = current.world
    await world.sleep(max(0.0, deadline - world.current_time()))


async def sleep_forever() -> None:
    """Wait until cancelled."""
    await current.world.sleep_forever()


async def checkpoint() -> None:
    """Let other tasks run; a cancelled task ends here."""
    await current.world.checkpoint()


async def checkpoint_if_cancelled() -> None:
    """End a cancelled task here; for another, return without waiting."""
    await current.world.checkpoint_if_cancelled()


async def run_in_thread(call: Callable[..., T], *args: Any, limiter: Limiter) -> T:
    """Return the result of a call that may block; the other tasks run meanwhile.

    A cancelled task still waits for the end of its call.
    """
    return await current.world.run_in_thread(call, args, limiter)


async def suspend(start: Callable[[Callable[[], None]], None], leave: Callable[[], None]) -> None:
    """Wait for one call, cheaper than with an event.

    `start` gets the function that must be called once to continue, and `leave` is called in its
    place when the task is cancelled.
    """
    await current.world.suspend(start, leave)


def spawn_system_task(function: Callable[..., Any], *args: Any) -> None:
    """Run an async function as a task of the whole world, outside of all nurseries."""
    current.world.spawn_system_task(function, args)


def local(key: type[T]) -> T:
    """Return the world's own instance of a class, which it makes without arguments when new."""
    return current.world.local(key)
