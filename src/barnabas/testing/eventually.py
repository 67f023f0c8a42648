"""Wait in a test until something happens in another thread or process."""

import time
from collections.abc import Callable
from typing import Final

_PAUSE_S: Final = 0.01


def wait_until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Return as soon as `condition` is true. Raises TimeoutError after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition is still false after {timeout_s} s")
        time.sleep(_PAUSE_S)
