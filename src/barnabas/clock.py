"""The time, as a value: those who need it are given a `Clock`, and read no other.

A server has the clock of its machine (`server.node.machine`); in a simulation
each process has its own. This module imports no other one.
"""

from collections.abc import Callable
from typing import Final


class Clock:
    """The clock of one process."""

    __slots__ = ("monotonic_ms", "wall_ms")

    def __init__(self, wall_ms: Callable[[], int], monotonic_ms: Callable[[], int]) -> None:
        self.wall_ms: Final = wall_ms
        """Returns the time in ms since 1970; it jumps when the machine's clock is set.

        For the timestamps of records and files.
        """
        self.monotonic_ms: Final = monotonic_ms
        """Returns ms that only advance. At the start of the process they are those of `wall_ms`.

        For deadlines, and for times that are compared with each other.
        """
