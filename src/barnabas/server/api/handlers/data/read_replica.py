"""The replica that a consumer fetches from: the leader, or a follower in its rack (KIP-392)."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.replication.replica_selection import (
    NO_PREFERENCE,
    RACK_AWARE,
    ReplicaView,
    preferred_replica,
)
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.server.api.handler_services import DataContext

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition


FOLLOWERS_VERSION: Final = 11


def finder(context: DataContext, by_id: bool, *, is_consumer: bool) -> Callable[..., "Partition"]:
    """Return what finds a partition: one that is led here, or for a consumer also a follower's."""
    replicas = context.services.replicas
    if is_consumer and context.version >= FOLLOWERS_VERSION:
        return replicas.replica
    return replicas.partition_by_id if by_id else replicas.partition


def client_rack(context: DataContext, request: FetchRequest, *, is_consumer: bool) -> str:
    """Return the rack of a consumer that may be sent to a follower; empty for others."""
    if not is_consumer or not request.rack_id:
        return ""
    selector = context.services.settings.current.get("replica.selector.class")
    return request.rack_id if selector == RACK_AWARE else ""


def preferred_read_replica(
    partition: "Partition",
    image: MetadataImage,
    client_rack: str,
    listener: str,
    offset: int,
    now_ms: int,
) -> int:
    """Return the broker that a client in `client_rack` should read `offset` from; -1: this one.

    Only live members of the ISR that have the offset count, on the listener that the client uses.
    `now_ms` is the time of the replication's clock.
    """
    if not partition.is_leader:
        return NO_PREFERENCE
    leader = image.brokers.get(partition.broker_id)
    candidates = _candidates(partition, image, listener, offset, now_ms)
    return preferred_replica(client_rack, None if leader is None else leader.rack, candidates)


def _candidates(
    partition: "Partition", image: MetadataImage, listener: str, offset: int, now_ms: int
) -> Iterator[ReplicaView]:
    state = partition.leader_state
    if state is None:
        return
    for replica, progress in state.followers.items():
        broker = image.brokers.get(replica)
        if (
            broker is not None
            and not broker.fenced
            and listener in broker.endpoints
            and replica in state.isr.committed
            and progress.log_start_offset <= offset <= progress.log_end_offset
        ):
            age_ms = now_ms - (progress.caught_up_ms() or 0)
            yield ReplicaView(replica, broker.rack, progress.log_end_offset, age_ms)
