"""Reading subscribed topics from the protocol metadata of consumers."""

from collections.abc import Iterable

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

_VERSION_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return all topics of the members' subscriptions, None when one cannot be parsed.

    Version 0 is a prefix of all later ones, so no later field is needed (Kafka:
    ClassicGroup.computeSubscribedTopics).
    """
    topics: set[str] = set()
    for metadata in subscriptions:
        if len(metadata) < _VERSION_BYTES:
            return None
        try:
            subscription, _ = ConsumerProtocolSubscription.decode_from(metadata, _VERSION_BYTES, 0)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
