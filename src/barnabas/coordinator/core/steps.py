"""Long decisions in small steps.

A decision about a consumer group of ten thousand topics takes tens of milliseconds, and would hold
the loop for that time (docs/performance.md has the figures). Code that walks over topics is
therefore a generator: it yields after some hundred microseconds of work, and returns its result.
The caller asks nothing else of the shard meanwhile, so a decision sees one state from its beginning
to its end.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from barnabas.cluster.metadata.stepwise import Steps, run_through

__all__ = ["SliceBudget", "Steps", "run_through"]

T = TypeVar("T")

# The number of topics in a step: each costs about a microsecond in most loops.
_TOPICS_IN_A_STEP = 256


class SliceBudget:
    """Decides when a loop over topics, or over members with their topics, must yield."""

    def __init__(self) -> None:
        self._left = _TOPICS_IN_A_STEP

    def chunks(self, items: Collection[T], weight: int = 1) -> Iterable[Collection[T]]:
        """Split items into chunks of at most one step; an item costs as much as `weight` topics."""
        size = max(_TOPICS_IN_A_STEP // max(weight, 1), 1)
        return (items,) if len(items) <= size else _split(items, size)

    def is_due(self, work: int) -> bool:
        """Spend work; return True, and begin a new step, when the step is used up."""
        self._left -= work
        if self._left > 0:
            return False
        self._left = _TOPICS_IN_A_STEP
        return True


def _split(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
