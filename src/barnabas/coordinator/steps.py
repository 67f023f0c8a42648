"""Decisions that may take long, made a step at a time.

A consumer group of ten thousand topics takes tens of milliseconds to decide on, which would hold
up all that the loop serves. So what goes through topics is a generator: it yields whenever it has
done some hundred microseconds of work, and returns its outcome. Whoever goes through it asks
nothing else of the shard meanwhile, so a decision sees one state from its beginning to its end.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

# How many topics make a step: each costs about a microsecond in most loops.
_IN_A_STEP = 256


def in_chunks(items: Iterable[T], weight: int = 1) -> Iterator[list[T]]:
    """The items, as many at a time as make a step; one takes as long as `weight` usual ones."""
    rest = iter(items)
    size = max(_IN_A_STEP // max(weight, 1), 1)
    while chunk := list(islice(rest, size)):
        yield chunk


def run_through(steps: Steps[T]) -> T:
    """The outcome of all steps, taken at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
