"""The last causes of rebalances by group, for people who look into a group.

The coordinator keeps them in memory: a few for each group that exists. They begin empty when the
partition is loaded. The node serves them over its HTTP endpoint.
"""

from collections import deque
from collections.abc import Container, Sequence
from typing import Final

import attrs

_CAUSES_MAX: Final = 10


@attrs.frozen(slots=True)
class Cause:
    """One cause: its time (ms), and the generation or epoch that resulted.

    For a classic group `epoch` is the last generation before the rebalance.
    """

    time_ms: int
    epoch: int
    reason: str


class RebalanceHistory:
    """The last causes by group."""

    def __init__(self) -> None:
        self._causes: dict[str, deque[Cause]] = {}

    def note(self, group_id: str, time_ms: int, epoch: int, reason: str) -> None:
        """Add a cause; the oldest one goes when there are many."""
        causes = self._causes.get(group_id)
        if causes is None:
            causes = self._causes[group_id] = deque(maxlen=_CAUSES_MAX)
        causes.append(Cause(time_ms, epoch, reason))

    def retain(self, group_ids: Container[str]) -> None:
        """Forget all other groups; a group that turns into another type keeps its history."""
        for group_id in [one for one in self._causes if one not in group_ids]:
            del self._causes[group_id]

    def of(self, group_id: str) -> Sequence[Cause]:
        """Return a group's causes, the oldest first."""
        return tuple(self._causes.get(group_id, ()))
