"""Why groups rebalanced: the last few causes of each, for people who look into it.

It is kept in memory by the coordinator and begins anew where the partition is loaded. Kafka's
protocol has no place for it, so it travels as a tagged field of our own: a DescribeGroups v5+ or
ConsumerGroupDescribe request that carries `CAUSES_TAG` gets it in each of its groups, and other
clients and servers see nothing of it.
"""

import json
from collections import deque
from collections.abc import Container, Sequence
from typing import Final

import attrs

# Far from the tags that Kafka counts up from 0.
CAUSES_TAG: Final = 8_480
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

    def retain(self, group_ids: Container[str]) -> None:
        """Forgets groups that are no more; one that turns into another type keeps its history."""
        for group_id in [one for one in self._causes if one not in group_ids]:
            del self._causes[group_id]

    def of(self, group_id: str) -> Sequence[Cause]:
        """A group's causes, the oldest first."""
        return tuple(self._causes.get(group_id, ()))


def encode_causes(causes: Sequence[Cause]) -> bytes:
    """Causes as the content of the tagged field."""
    told = [{"time_ms": c.time_ms, "epoch": c.epoch, "reason": c.reason} for c in causes]
    return json.dumps(told).encode()


def decode_causes(data: bytes) -> list[Cause]:
    """The causes that a server told; ValueError for something else."""
    try:
        return [Cause(one["time_ms"], one["epoch"], one["reason"]) for one in json.loads(data)]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("these are no causes") from error
