"""Decisions that may take long, made a step at a time.

A consumer group of ten thousand topics takes tens of milliseconds to decide on, which would hold
up all that the loop serves. So what goes through topics is a generator: it yields whenever it has
done some hundred microseconds of work, and returns its outcome. Whoever goes through it asks
nothing else of the shard meanwhile, so a decision sees one state from its beginning to its end.
"""

from collections.abc import Collection, Generator, Iterable, Iterator
from itertools import islice
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

# How many topics make a step: each costs about a microsecond in most loops.
_TOPICS_IN_A_STEP = 256


class Pace:
    """Tells a loop over topics, or over members with theirs, when to yield."""

    def __init__(self) -> None:
        self._left = _TOPICS_IN_A_STEP

    def chunks(self, items: Collection[T], weight: int = 1) -> Iterable[Collection[T]]:
        """The items, no more at a time than make a step; one is as much work as `weight` topics."""
        size = max(_TOPICS_IN_A_STEP // max(weight, 1), 1)
        return (items,) if len(items) <= size else _split(items, size)

    def is_due(self, work: int) -> bool:
        """Whether so much more work makes a step with what was done before; a new one begins."""
        self._left -= work
        if self._left > 0:
            return False
        self._left = _TOPICS_IN_A_STEP
        return True


def _split(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def run_through(steps: Steps[T]) -> T:
    """The outcome of all steps, taken at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
