"""The world of the calling thread: trio's, unless a simulation runs in the thread."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from barnabas.tasks.trio_world import TrioWorld

if TYPE_CHECKING:
    from barnabas.tasks.task_types import World

_TRIO: Final = TrioWorld()


class _Current(threading.local):
    world: "World" = _TRIO


current: Final = _Current()


@contextmanager
def entered(world: "World") -> Generator[None]:
    """Make a world the one of this thread within the block."""
    before, current.world = current.world, world
    try:
        yield
    finally:
        current.world = before
