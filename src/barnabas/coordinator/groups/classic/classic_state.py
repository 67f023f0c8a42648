"""The states of a classic group.

| state | JoinGroup | SyncGroup | Heartbeat | OffsetCommit by a member |
| --- | --- | --- | --- | --- |
| Empty | new members | 25 | 25 | 25 (without a member: accepted) |
| PreparingRebalance | parked | 27 | 27 | accepted |
| CompletingRebalance | as before, or starts over | parked | ok | 27 |
| Stable | as before, or starts over | the assignment | ok | accepted |
| Dead | 15 | 15 | 15 | 15 |

15 COORDINATOR_NOT_AVAILABLE, 25 UNKNOWN_MEMBER_ID, 27 REBALANCE_IN_PROGRESS. A group is dead only
when its partition has moved to another node; a deleted group does not exist. Kafka:
ClassicGroupState.
"""

import enum


class ClassicGroupState(enum.Enum):
    """The state of a group in a generation; clients see the values."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = ClassicGroupState.EMPTY
PREPARING_REBALANCE = ClassicGroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE
DEAD = ClassicGroupState.DEAD

TRANSITIONS: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY, DEAD}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE, DEAD}),
    STABLE: frozenset({PREPARING_REBALANCE, DEAD}),
    DEAD: frozenset({DEAD}),
}

# A rebalance may begin in these states.
REBALANCEABLE = frozenset(
    state for state, targets in TRANSITIONS.items() if PREPARING_REBALANCE in targets
)
