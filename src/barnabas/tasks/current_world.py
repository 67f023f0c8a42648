"""The world of the calling thread: trio's, unless a simulation runs in the thread."""

import threading
from typing import TYPE_CHECKING, Final

from barnabas.tasks.trio_world import TrioWorld

if TYPE_CHECKING:
    from barnabas.tasks.task_types import World

_TRIO: Final = TrioWorld()


class _Current(threading.local):
    world: "World" = _TRIO


current: Final = _Current()
