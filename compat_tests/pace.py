"""The pace of a test that looks again and again until something is there.

A look may read a topic to its end with a new consumer. Without a pause that is longer than a look,
the test and the server take much of a core from the job that they wait for.
"""

import time

_SHARE = 3
"""The ratio of a pause to the look before it."""
_MOST_S = 1.0
WAIT_S = 480.0
"""The limit of a wait for a pipeline, on a machine that is slow or has other work."""


class Pace:
    """Pauses between looks."""

    def __init__(self, least_s: float = 0.1) -> None:
        self._least_s = least_s
        self._begun = time.monotonic()

    def pause(self) -> None:
        """Sleep after a look, longer after one that took long."""
        look_s = time.monotonic() - self._begun
        time.sleep(max(self._least_s, min(_MOST_S, _SHARE * look_s)))
        self._begun = time.monotonic()
