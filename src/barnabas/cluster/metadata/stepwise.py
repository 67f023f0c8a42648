"""Long work in small steps, so that its caller's loop serves others in between.

The work is a generator, which yields after some hundred microseconds and returns its result.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


def run_through(steps: Steps[T]) -> T:
    """Run all steps at once and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
