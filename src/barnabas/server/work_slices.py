"""Long work of the loop in slices: other tasks run in between."""

from typing import Final, TypeVar

from barnabas import tasks
from barnabas.cluster.metadata.stepwise import Steps

T = TypeVar("T")

SLICE_S: Final = 0.01


async def in_slices(steps: Steps[T]) -> T:
    """Run all steps and return their result; the loop serves others after each slice of time."""
    began = tasks.current_time()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        if tasks.current_time() - began > SLICE_S:
            await tasks.checkpoint()
            began = tasks.current_time()
