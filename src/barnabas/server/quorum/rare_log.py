"""Failures that repeat for a long time are logged seldom, passing ones not at all."""

from collections.abc import Hashable
from typing import Final

_INTERVAL_S: Final = 60.0
_PATIENCE_S: Final = 3.0


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


class PeerFailures:
    """Decides which failures of peers are logged: after 3 s without a success, then one a minute.

    A peer that is being restarted fails for a moment only.
    """

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}
        self._log = RareLog()

    def succeeded(self, peer: Hashable) -> None:
        """The peer has answered."""
        self._since.pop(peer, None)

    def is_due(self, peer: Hashable, now_s: float) -> bool:
        """True when a failure of this peer must be logged now; it then counts as logged."""
        since = self._since.setdefault(peer, now_s)
        return now_s - since >= _PATIENCE_S and self._log.is_due(peer, now_s)
