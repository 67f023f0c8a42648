"""Failures that repeat for a long time are logged seldom."""

from collections.abc import Hashable
from typing import Final

_INTERVAL_S: Final = 60.0


class RareLog:
    """Decides which failures are logged: the first one of a kind, then at most one per minute."""

    def __init__(self) -> None:
        self._logged_at: dict[Hashable, float] = {}

    def is_due(self, kind: Hashable, now_s: float) -> bool:
        """True when a failure of this kind must be logged now; it then counts as logged."""
        logged_at = self._logged_at.get(kind)
        if logged_at is not None and now_s < logged_at + _INTERVAL_S:
            return False
        self._logged_at[kind] = now_s
        return True
