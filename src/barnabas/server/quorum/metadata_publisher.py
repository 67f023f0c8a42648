"""Publish committed metadata images to the parts of the node that follow them.

The publisher owns the node's current image. A failing subscriber is logged and counted, and the
other subscribers are called. Only the failure of an essential subscriber ends the node, because the
node would otherwise serve outdated metadata.
"""

import logging
from collections.abc import Callable

import attrs

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

Subscriber = Callable[[MetadataImage, MetadataDelta], None]


@attrs.frozen
class _Subscription:
    name: str
    callback: Subscriber
    essential: bool


class MetadataPublisher:
    """The node's current metadata, and the subscribers to its changes."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.failures: dict[str, int] = {}
        """How often each subscriber has failed, by its name."""
        self._subscriptions: list[_Subscription] = []

    def subscribe(self, name: str, callback: Subscriber, *, essential: bool = False) -> None:
        """Call `callback` with each new image and what changed in it, in the order of the log."""
        self._subscriptions.append(_Subscription(name, callback, essential))

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Make `image` the current one and call the subscribers in the order of subscription.

        Raises the exception of an essential subscriber.
        """
        self.image = image
        for subscription in list(self._subscriptions):
            try:
                subscription.callback(image, delta)
            except Exception:
                name = subscription.name
                self.failures[name] = self.failures.get(name, 0) + 1
                if subscription.essential:
                    raise
                logger.exception(
                    "metadata subscriber failed subscriber=%s offset=%d", name, image.offset
                )
