"""How fast a helper process may read and write, and that it does not outlive its node."""

import os
import time


class OrphanedError(Exception):
    """The node that wanted this is gone; another one may use the directory already."""


class Throttle:
    """Keeps reading and writing below so many bytes a second, and ends the work with the node."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._parent = os.getppid()
        self._began = time.monotonic()
        self._bytes = 0

    def __call__(self, count: int) -> None:
        """Count bytes, and sleep when there were too many; OrphanedError."""
        if os.getppid() != self._parent:
            raise OrphanedError
        self._bytes += count
        ahead = self._bytes / self._rate - (time.monotonic() - self._began)
        if ahead > 0.01:
            time.sleep(ahead)
