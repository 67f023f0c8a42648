"""Why groups rebalanced: the last few causes of each, for people who look into it.

It is kept in memory by the coordinator and begins anew where the partition is loaded.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import attrs

_CAUSES_MAX: Final = 10


@attrs.frozen(slots=True)
class Cause:
    """What made a group rebalance: when (ms), and the generation or epoch that came of it.

    `epoch` is that of a classic group's last generation when the rebalance began.
    """

    time_ms: int
    epoch: int
    reason: str


class Histories:
    """The last causes by group."""

    def __init__(self) -> None:
        self._causes: dict[str, deque[Cause]] = {}

    def note(self, group_id: str, time_ms: int, epoch: int, reason: str) -> None:
        """Adds a cause; the oldest goes when there are many."""
        causes = self._causes.get(group_id)
        if causes is None:
            causes = self._causes[group_id] = deque(maxlen=_CAUSES_MAX)
        causes.append(Cause(time_ms, epoch, reason))

    def forget(self, group_id: str) -> None:
        """The group is no more."""
        self._causes.pop(group_id, None)

    def of(self, group_id: str) -> Sequence[Cause]:
        """A group's causes, the oldest first."""
        return tuple(self._causes.get(group_id, ()))
