"""The tasks of the simulation against trio: the same programs have the same outcome in both."""

from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import trio
import trio.testing

from barnabas import tasks
from barnabas.testing.simulation.sim_tasks import EndlessStepsError
from barnabas.testing.simulation.world import Process, World

Trace = list[object]
Program = Callable[[Trace], Awaitable[None]]


def in_trio(program: Program) -> Trace:
    """Return the trace of a program in trio, whose clock jumps."""
    trace: Trace = []
    start = 0.0

    async def main() -> None:
        nonlocal start
        start = tasks.current_time()
        await program(trace)

    try:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseException as error:
        trace.append(described(error))
    return [round(each - start, 3) if isinstance(each, float) else each for each in trace]


def in_simulation(program: Program) -> Trace:
    """Return the trace of a program in the simulation."""
    trace: Trace = []
    world = World(1)
    process = Process(world, 1)
    process.start()

    async def main() -> None:
        try:
            await program(trace)
        except Exception as error:
            trace.append(described(error))

    process.call(process.life, process.tasks.spawn_system_task, (main,))
    world.run(1_000_000)
    return [round(each, 3) if isinstance(each, float) else each for each in trace]


def described(error: BaseException) -> object:
    """Return an exception with those in it, as values."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return "group", sorted(str(described(each)) for each in group.exceptions)
    return type(error).__name__, str(error)


async def sleeps(trace: Trace) -> None:
    """Sleep, at once and in order."""
    await tasks.sleep(0)
    for seconds in (0.5, 2.0):
        await tasks.sleep(seconds)
        trace.append(tasks.current_time())
    await tasks.sleep_until(1.0)
    trace.append("past")


async def timeouts(trace: Trace) -> None:
    """End blocks by their time; the inner and the outer one."""
    with tasks.move_on_after(1) as scope:
        await tasks.sleep_forever()
    trace += [scope.cancelled_caught, tasks.current_time()]
    with tasks.move_on_after(5) as scope:
        await tasks.sleep(1)
    trace += [scope.cancelled_caught, tasks.current_time()]
    with tasks.move_on_after(1) as outer, tasks.move_on_after(3) as inner:
        await tasks.sleep(9)
    trace += [outer.cancelled_caught, inner.cancelled_caught, tasks.current_time()]
    try:
        with tasks.fail_after(2):
            await tasks.sleep(3)
    except tasks.TimeIsUpError:
        trace.append(tasks.current_time())


async def moved_deadline(trace: Trace) -> None:
    """Move a deadline while the block runs, forth and back."""
    async with tasks.open_nursery() as nursery:
        scope = tasks.cancel_scope(deadline=tasks.current_time() + 10)

        async def mover() -> None:
            await tasks.sleep(1)
            scope.deadline = tasks.current_time() + 1

        nursery.start_soon(mover)
        with scope:
            await tasks.sleep_forever()
        trace += [scope.cancelled_caught, tasks.current_time()]


async def shielded(trace: Trace) -> None:
    """A shield delays the cancellation of the outer block."""
    with tasks.move_on_after(1) as outer:
        with tasks.cancel_scope(shield=True):
            await tasks.sleep(3)
            trace.append(tasks.current_time())
        trace.append("after the shield")
        await tasks.sleep(1)
        trace.append("not reached")
    trace += [outer.cancelled_caught, tasks.current_time()]


async def early_cancel(trace: Trace) -> None:
    """Cancel a scope before it is entered; a block without a checkpoint ends as usual."""
    scope = tasks.cancel_scope()
    scope.cancel()
    with scope:
        trace.append("entered")
        await tasks.checkpoint()
        trace.append("not reached")
    trace.append(scope.cancelled_caught)
    with tasks.cancel_scope() as idle:
        idle.cancel()
    trace += [idle.cancelled_caught, idle.cancel_called]


async def events(trace: Trace) -> None:
    """Several tasks wait for one event; one is cancelled before."""
    event = tasks.event()

    async def waiter(name: str) -> None:
        await event.wait()
        trace.append((name, round(tasks.current_time(), 0) > 0))

    async with tasks.open_nursery() as nursery:
        nursery.start_soon(waiter, "one")
        with tasks.move_on_after(1) as scope:
            await event.wait()
        trace.append(scope.cancelled_caught)
        event.set()
        await event.wait()
    trace.append(event.is_set())


async def nursery_errors(trace: Trace) -> None:
    """A failing task cancels the others; the errors come as a group."""

    async def failing() -> None:
        await tasks.sleep(1)
        raise ValueError("first")

    async def cleaning() -> None:
        try:
            await tasks.sleep_forever()
        finally:
            trace.append(("cleaned", round(tasks.current_time() % 1, 3)))

    try:
        async with tasks.open_nursery() as nursery:
            nursery.start_soon(failing)
            nursery.start_soon(cleaning)
            await tasks.sleep(5)
            trace.append("not reached")
    except BaseExceptionGroup as group:
        trace.append(described(group))
    raise RuntimeError("the end")


async def error_while_cancelled(trace: Trace) -> None:
    """A task that fails while it is cancelled: its error remains."""

    async def clumsy() -> None:
        try:
            await tasks.sleep_forever()
        finally:
            raise KeyError("in finally")

    try:
        async with tasks.open_nursery() as nursery:
            nursery.start_soon(clumsy)
            nursery.start_soon(tasks.sleep_forever)
            await tasks.sleep(1)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        trace.append(described(group))


async def outer_cancel(trace: Trace) -> None:
    """Cancel a block with a nursery whose tasks clean up behind a shield."""

    async def slow() -> None:
        try:
            await tasks.sleep_forever()
        finally:
            with tasks.cancel_scope(shield=True):
                await tasks.sleep(2)
            trace.append(tasks.current_time())

    with tasks.move_on_after(1) as scope:
        async with tasks.open_nursery() as nursery:
            nursery.start_soon(slow)
        trace.append("not reached")
    trace += [scope.cancelled_caught, tasks.current_time()]


async def starts(trace: Trace) -> None:
    """`start` waits for `started`, raises what comes before it, and gives up when cancelled."""

    async def ready_after(seconds: float, task_status: tasks.TaskStatus) -> None:
        try:
            await tasks.sleep(seconds)
            task_status.started()
            await tasks.sleep(10)
        finally:
            trace.append(("ended", seconds))

    async def broken(task_status: tasks.TaskStatus) -> None:
        del task_status
        raise ValueError("broken")

    async with tasks.open_nursery() as nursery:
        await nursery.start(ready_after, 1)
        trace.append(tasks.current_time())
        try:
            await nursery.start(broken)
        except ValueError as error:
            trace.append(str(error))
        with tasks.move_on_after(1) as scope:
            await nursery.start(ready_after, 5)
        trace += [scope.cancelled_caught, tasks.current_time()]
        nursery.cancel_scope.cancel()


async def locks(trace: Trace) -> None:
    """A lock passes in the order of its waiters; a cancelled one gives up its place."""
    lock = tasks.lock()

    async def holder(name: str, delay_s: float) -> None:
        await tasks.sleep(delay_s)
        with tasks.move_on_after(4):
            async with lock:
                trace.append((name, round(tasks.current_time() % 100, 1) >= 0))
                await tasks.sleep(2)

    async with tasks.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(holder, f"task {number}", number / 10)
    trace.append(lock.locked())


async def conditions(trace: Trace) -> None:
    """Wait for a condition that several notifications make true."""
    condition, value = tasks.condition(), 0

    async def waiter() -> None:
        async with condition:
            while value < 3:
                await condition.wait()
            trace.append(value)

    async with tasks.open_nursery() as nursery:
        nursery.start_soon(waiter)
        for _ in range(3):
            await tasks.sleep(1)
            async with condition:
                value += 1
                condition.notify_all()


async def suspensions(trace: Trace) -> None:
    """Wait for a call; leave when cancelled."""
    calls: list[Callable[[], None]] = []

    async def caller() -> None:
        await tasks.sleep(1)
        calls.pop()()

    async with tasks.open_nursery() as nursery:
        nursery.start_soon(caller)
        await tasks.suspend(calls.append, lambda: trace.append("left"))
        trace.append(tasks.current_time())
        with tasks.move_on_after(1):
            await tasks.suspend(calls.append, lambda: trace.append("left"))
        trace.append(tasks.current_time())


async def threads(trace: Trace) -> None:
    """Calls in threads return or raise, also in a cancelled task."""
    limiter = tasks.limiter(1)
    trace.append(await tasks.run_in_thread(lambda: 7, limiter=limiter))

    def fail() -> None:
        raise OSError("disk")

    try:
        await tasks.run_in_thread(fail, limiter=limiter)
    except OSError as error:
        trace.append(str(error))
    finished: list[int] = []
    with tasks.cancel_scope() as scope:
        async with tasks.open_nursery() as nursery:
            nursery.start_soon(lambda: tasks.run_in_thread(finished.append, 1, limiter=limiter))
            await tasks.sleep(1)
            scope.cancel()
    trace.append(finished)


async def instances(trace: Trace) -> None:
    """A class has one instance in each world."""
    trace.append(tasks.local(dict) is tasks.local(dict))


PROGRAMS = (
    sleeps, timeouts, moved_deadline, shielded, early_cancel, events, nursery_errors,
    error_while_cancelled, outer_cancel, starts, locks, conditions, suspensions, threads, instances,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program_has_the_same_outcome_as_in_trio(program: Program) -> None:
    expected = in_trio(program)

    assert in_simulation(program) == expected
    assert expected


def test_killed_process_runs_no_finally() -> None:
    world, trace = World(1), Trace()
    process = Process(world, 1)
    process.start()

    async def victim() -> None:
        try:
            async with tasks.open_nursery() as nursery:
                nursery.start_soon(tasks.sleep_forever)
        finally:
            trace.append("finally")

    process.call(process.life, process.tasks.spawn_system_task, (victim,))
    world.run(1_000)
    process.kill()
    process.start()
    world.run(1_000)

    assert trace == []


def test_crash_between_effects_reaches_no_later_effect() -> None:
    world, trace = World(1), Trace()
    process = Process(world, 1)
    process.start()
    process.effects_before_crash = 1

    def effect(name: str) -> None:
        process.effect()
        trace.append(name)

    async def victim() -> None:
        try:
            effect("first")
            effect("second")
        except Exception:
            trace.append("caught")
        finally:
            effect("third")

    process.call(process.life, process.tasks.spawn_system_task, (victim,))
    world.run(1_000)

    assert (trace, process.is_running) == (["first"], False)


def test_tasks_that_wake_each_other_without_end_fail_the_seed() -> None:
    world = World(1)
    process = Process(world, 1)
    process.start()

    async def spinning() -> None:
        while True:
            await tasks.checkpoint()

    process.call(process.life, process.tasks.spawn_system_task, (spinning,))

    with pytest.raises(EndlessStepsError):
        world.run(1_000)
