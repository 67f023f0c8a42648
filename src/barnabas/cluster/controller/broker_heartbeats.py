"""The heartbeats of brokers, as the active controller received them, and the states they lead to.

Soft state, as in Kafka's `BrokerHeartbeatManager`: it is not in the log, and a new active
controller starts without it. It is keyed by broker id and epoch, so that the heartbeats of an
earlier incarnation do not count.
"""

import enum
from collections.abc import Callable

import attrs

from barnabas.cluster.metadata.image import BrokerImage, MetadataImage
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest

_UNKNOWN = -1


class BrokerControlState(enum.Enum):
    """The state that the controller gives a broker (Kafka's `BrokerControlState`)."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @classmethod
    def of(cls, broker: BrokerImage) -> "BrokerControlState":
        """Return the state that the metadata records of the broker."""
        if broker.fenced:
            return cls.FENCED
        return cls.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else cls.UNFENCED


@attrs.define(slots=True)
class _Heartbeats:
    epoch: int
    metadata_offset: int = _UNKNOWN
    controlled_shutdown_offset: int = _UNKNOWN


class BrokerHeartbeats:
    """The last heartbeat of each broker."""

    def __init__(self) -> None:
        self._brokers: dict[int, _Heartbeats] = {}

    def touch(self, broker: BrokerImage, metadata_offset: int) -> None:
        """Note the offset up to which a broker has applied the metadata."""
        self._of(broker).metadata_offset = metadata_offset

    def begin_controlled_shutdown(self, broker: BrokerImage, offset: int) -> None:
        """Note the last offset of the records that move a broker's leaderships away.

        A new active controller does not know that offset and uses the current one, which is later.
        """
        heartbeats = self._of(broker)
        if heartbeats.controlled_shutdown_offset == _UNKNOWN:
            heartbeats.controlled_shutdown_offset = offset

    def extend_controlled_shutdown(self, broker: BrokerImage, offset: int) -> None:
        """Note a later offset, up to which more leaderships have moved away."""
        heartbeats = self._of(broker)
        heartbeats.controlled_shutdown_offset = max(heartbeats.controlled_shutdown_offset, offset)

    def next_state(
        self,
        image: MetadataImage,
        broker: BrokerImage,
        request: BrokerHeartbeatRequest,
        has_leaderships: Callable[[], bool],
    ) -> BrokerControlState:
        """Return the state of a broker after its heartbeat.

        As `BrokerHeartbeatManager#calculateNextBrokerState`: a broker is unfenced once it has
        applied its own registration. It may stop when it leads no partition and all active brokers
        have applied the records that moved its leaderships away.
        """
        states = BrokerControlState
        current = states.of(broker)
        if current is states.FENCED:
            if request.want_shut_down:
                return states.SHUTDOWN_NOW
            is_caught_up = request.current_metadata_offset >= broker.epoch
            wants_to_serve = not request.want_fence and is_caught_up
            return states.UNFENCED if wants_to_serve else states.FENCED
        if current is states.UNFENCED:
            if request.want_fence:
                return states.SHUTDOWN_NOW if request.want_shut_down else states.FENCED
            if not request.want_shut_down:
                return states.UNFENCED
            return states.CONTROLLED_SHUTDOWN if has_leaderships() else states.SHUTDOWN_NOW
        offset = self._of(broker).controlled_shutdown_offset
        if has_leaderships() or not _UNKNOWN < offset <= self._lowest_active_offset(image, offset):
            return states.CONTROLLED_SHUTDOWN
        return states.SHUTDOWN_NOW

    def _lowest_active_offset(self, image: MetadataImage, default: int) -> int:
        active = (broker for broker in image.brokers.values() if broker.is_active)
        return min((self._of(broker).metadata_offset for broker in active), default=default)

    def _of(self, broker: BrokerImage) -> _Heartbeats:
        known = self._brokers.get(broker.id)
        if known is None or known.epoch != broker.epoch:
            known = self._brokers[broker.id] = _Heartbeats(broker.epoch)
        return known
