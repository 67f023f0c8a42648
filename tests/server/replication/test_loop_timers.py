"""Deadlines without tasks: called in time, in order, never after they were cancelled."""

import pytest
import trio
import trio.testing

from barnabas.server.replication.loop_timers import LoopTimers


async def run_deadlines() -> list[tuple[str, float]]:
    timers = LoopTimers.current()
    assert LoopTimers.current() is timers
    began = trio.current_time()
    called: list[tuple[str, float]] = []

    def note(name: str) -> None:
        called.append((name, round(trio.current_time() - began, 3)))

    timers.after(30_000, lambda: note("late"))
    cancelled = timers.after(10_000, lambda: note("never"))
    timers.after(5_000, lambda: note("early"))
    await trio.sleep(1)
    timers.after(2_000, lambda: note("earliest"))
    timers.cancel(cancelled)
    await trio.sleep(60)
    timers.after(1_000, lambda: note("again"))
    timers.after(1_000, lambda: timers.after(3_000, lambda: note("from within")))
    await trio.sleep(10)
    return called


def test_loop_timers_call_in_time_and_order_unless_cancelled() -> None:
    called = trio.run(run_deadlines, clock=trio.testing.MockClock(autojump_threshold=0))
    assert called == [
        ("earliest", 3),
        ("early", 5),
        ("late", 30),
        ("again", 62),
        ("from within", 65),
    ]


async def count_system_tasks() -> list[int]:
    def tasks() -> int:
        root = trio.lowlevel.current_root_task()
        assert root is not None
        return sum(len(nursery.child_tasks) for nursery in root.child_nurseries)

    counts = [tasks()]
    timers = LoopTimers.current()
    for _ in range(100):
        timers.after(1_000, lambda: None)
    counts.append(tasks())
    await trio.sleep(2)
    counts.append(tasks())
    return counts


def test_loop_timers_use_one_task_and_none_when_idle() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    before, during, after = trio.run(count_system_tasks, clock=clock)
    assert (during - before, after - before) == (1, 0)


def test_loop_timers_failing_call_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[str]:
        timers, called = LoopTimers.current(), list[str]()
        timers.after(1_000, lambda: called.append("first"))
        timers.after(2_000, lambda: 1 // 0)
        timers.after(3_000, lambda: called.append("last"))
        await trio.sleep(4)
        return called

    clock = trio.testing.MockClock(autojump_threshold=0)
    assert trio.run(main, clock=clock) == ["first", "last"]
    assert "ZeroDivisionError" in caplog.text


def test_loop_timers_rescheduled_key_is_called_once_at_its_new_time() -> None:
    async def main() -> list[int]:
        timers, called = LoopTimers.current(), list[int]()
        start_ms = timers.now_ms()
        key = object()
        for delay_ms in (1_000, 5_003, 2_007):
            timers.schedule(
                key, start_ms + delay_ms, lambda: called.append(timers.now_ms() - start_ms)
            )
        await trio.sleep(10)
        return called

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) == [2_007]
