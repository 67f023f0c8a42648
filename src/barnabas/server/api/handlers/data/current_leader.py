"""The leader of a partition, for responses that redirect a client to it (KIP-951)."""

from barnabas.cluster.metadata.image import Endpoint
from barnabas.server.api.handler_services import DataContext


def current_leader(
    context: DataContext, topic: str, partition: int
) -> tuple[int, int, Endpoint | None, str | None]:
    """Return the leader's id and epoch, its endpoint on the client's listener, and its rack.

    (-1, -1, None, None) for an unknown partition; no endpoint while the leader is fenced.
    """
    image = context.services.replicas.image
    found = image.partition(topic, partition)
    if found is None:
        return -1, -1, None, None
    broker = image.brokers.get(found.leader)
    if broker is None or broker.fenced:
        return found.leader, found.leader_epoch, None, None
    endpoint = broker.endpoints.get(context.connection.listener_name)
    return found.leader, found.leader_epoch, endpoint, broker.rack
