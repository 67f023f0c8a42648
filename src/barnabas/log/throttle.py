"""Limit the disk traffic of a helper process, and end it when its node is gone."""

import os
import time


class OrphanedError(Exception):
    """The node that sent the job has ended; another node may use the directory already."""


class Throttle:
    """Keeps the traffic below `bytes_per_second`, and raises OrphanedError without the node."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._parent = os.getppid()
        self._began = time.monotonic()
        self._bytes = 0

    def __call__(self, count: int) -> None:
        """Count bytes, and sleep while there are too many. Raises OrphanedError."""
        if os.getppid() != self._parent:
            raise OrphanedError
        self._bytes += count
        ahead = self._bytes / self._rate - (time.monotonic() - self._began)
        if ahead > 0.01:
            time.sleep(ahead)
