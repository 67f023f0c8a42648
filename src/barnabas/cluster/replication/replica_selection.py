"""The replica that a consumer reads, by rack (KIP-392, Kafka's `RackAwareReplicaSelector`)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

NO_PREFERENCE: Final = -1
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaView(NamedTuple):
    """A replica that has the offset that a consumer fetches.

    `caught_up_age_ms` is the time since the replica had all records.
    """

    broker_id: int
    rack: str | None
    log_end_offset: int
    caught_up_age_ms: int


def preferred_replica(
    client_rack: str, leader_rack: str | None, followers: Iterable[ReplicaView]
) -> int:
    """Return the follower to read from; -1 for the leader.

    The leader serves clients of the same rack, and those in whose rack no replica is. Among several
    followers in the rack, the one that is furthest and was caught up last is preferred.
    """
    if leader_rack == client_rack:
        return NO_PREFERENCE
    near = [follower for follower in followers if follower.rack == client_rack]
    if not near:
        return NO_PREFERENCE
    best = max(near, key=lambda each: (each.log_end_offset, -each.caught_up_age_ms, each.broker_id))
    return best.broker_id
