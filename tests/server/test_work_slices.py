"""Long work of the loop, which other tasks interrupt after each slice of time."""

import trio
from trio.testing import MockClock

from barnabas.cluster.metadata.stepwise import Steps
from barnabas.server.work_slices import SLICE_S, in_slices

STEPS = 12
STEPS_OF_A_SLICE = 2


def test_in_slices_lets_other_tasks_run_after_each_slice() -> None:
    clock, done = MockClock(), list[str]()

    def work() -> Steps[str]:
        for _ in range(STEPS):
            clock.jump(SLICE_S * 1.2 / STEPS_OF_A_SLICE)
            done.append("step")
            yield
        return "result"

    async def other() -> None:
        while done.count("step") < STEPS:
            done.append("other")
            await trio.lowlevel.checkpoint()

    async def main() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            return await in_slices(work())
        raise AssertionError

    assert trio.run(main, clock=clock) == "result"
    steps = "".join("s" if each == "step" else "o" for each in done)
    # Tasks run in any order: the other one may come before a slice, and after the next one.
    assert max(len(run) for run in steps.split("o")) <= 2 * STEPS_OF_A_SLICE


def test_in_slices_without_steps_returns_the_result() -> None:
    def work() -> Steps[int]:
        if STEPS < 0:
            yield
        return 7

    assert trio.run(in_slices, work()) == 7
