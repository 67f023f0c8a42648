"""The world of a server: each function is trio's own."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar, cast

import trio

from barnabas.tasks.task_types import CancelScope, Limiter, Nursery

T = TypeVar("T")

_LOCALS: Final = trio.lowlevel.RunVar[dict[type[Any], Any]]("barnabas.tasks")


class TrioWorld:
    """trio's functions in the shape of `task_types.World`."""

    current_time = staticmethod(trio.current_time)
    event = staticmethod(trio.Event)
    lock = staticmethod(trio.Lock)
    condition = staticmethod(trio.Condition)
    limiter = staticmethod(trio.CapacityLimiter)
    sleep = staticmethod(trio.sleep)
    sleep_forever = staticmethod(trio.sleep_forever)
    checkpoint = staticmethod(trio.lowlevel.checkpoint)
    checkpoint_if_cancelled = staticmethod(trio.lowlevel.checkpoint_if_cancelled)

    @staticmethod
    def cancel_scope(deadline: float, shield: bool) -> CancelScope:
        """Return trio's scope."""
        return trio.CancelScope(deadline=deadline, shield=shield)

    @staticmethod
    def open_nursery() -> AbstractAsyncContextManager[Nursery]:
        """Return trio's nursery."""
        return trio.open_nursery()

    @staticmethod
    async def run_in_thread(call: Callable[..., T], args: tuple[Any, ...], limiter: Limiter) -> T:
        """Run a call in one of trio's threads."""
        bound = cast("trio.CapacityLimiter", limiter)
        return await trio.to_thread.run_sync(call, *args, limiter=bound)

    @staticmethod
    async def suspend(
        start: Callable[[Callable[[], None]], None], leave: Callable[[], None]
    ) -> None:
        """Wait for trio's `reschedule`."""
        task = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            leave()
            return trio.lowlevel.Abort.SUCCEEDED

        start(lambda: trio.lowlevel.reschedule(task))
        await trio.lowlevel.wait_task_rescheduled(abort)

    @staticmethod
    def spawn_system_task(function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        """Run a system task of trio."""
        trio.lowlevel.spawn_system_task(function, *args)

    @staticmethod
    def local(key: type[T]) -> T:
        """Return the instance of this trio run."""
        try:
            instances = _LOCALS.get()
        except LookupError:
            instances = dict[type[Any], Any]()
            _LOCALS.set(instances)
        if key not in instances:
            instances[key] = key()
        return instances[key]
