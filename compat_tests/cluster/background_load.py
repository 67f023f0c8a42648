"""A load in its own thread, for as long as a `with` block."""

import threading
from typing import Self

_END_S = 60.0


class BackgroundLoad:
    """Runs `_run` in a thread. Subclasses return from it soon after `_stopping` is set."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        raise NotImplementedError
