"""Deadlines without tasks: called in time, in order, never after they were cancelled."""

import trio
import trio.testing

from barnabas.server.replication.request_deadlines import Expiry


async def run_deadlines() -> list[tuple[str, float]]:
    expiry = Expiry.current()
    assert Expiry.current() is expiry
    began = trio.current_time()
    called: list[tuple[str, float]] = []

    def note(name: str) -> None:
        called.append((name, round(trio.current_time() - began, 3)))

    expiry.after(30, lambda: note("late"))
    cancelled = expiry.after(10, lambda: note("never"))
    expiry.after(5, lambda: note("early"))
    await trio.sleep(1)
    expiry.after(2, lambda: note("earliest"))
    cancelled.cancel()
    await trio.sleep(60)
    expiry.after(1, lambda: note("again"))
    expiry.after(1, lambda: expiry.after(3, lambda: note("from within")) and None)
    await trio.sleep(10)
    return called


def test_deadlines_are_called_in_time_and_order_unless_cancelled() -> None:
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
    expiry = Expiry.current()
    for _ in range(100):
        expiry.after(1, lambda: None)
    counts.append(tasks())
    await trio.sleep(2)
    counts.append(tasks())
    return counts


def test_a_hundred_deadlines_take_one_task_and_none_takes_none() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    before, during, after = trio.run(count_system_tasks, clock=clock)
    assert (during - before, after - before) == (1, 0)
