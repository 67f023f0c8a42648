"""A limit for log lines of which thousands may be due at once, one for each partition."""

from typing import Final

LINES_PER_WINDOW: Final = 20
_WINDOW_MS: Final = 1_000


class LineBudget:
    """Allows the first lines of each second; a write of a line may wait for its reader."""

    def __init__(self) -> None:
        self._began_ms = -_WINDOW_MS
        self._left = LINES_PER_WINDOW

    def take(self, now_ms: int) -> bool:
        """True when a line may be written now; it then counts as written."""
        if now_ms - self._began_ms >= _WINDOW_MS:
            self._began_ms, self._left = now_ms, LINES_PER_WINDOW
        self._left -= 1
        return self._left >= 0
