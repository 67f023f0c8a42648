"""One member of a classic group."""

from collections.abc import Sequence

import attrs

from barnabas.coordinator.core.coordinator_output import Token

# A protocol's name and the member's subscription for it, in the member's order of preference.
Protocols = Sequence[tuple[str, bytes]]


@attrs.define
class ClassicMember:
    """A member's values, its assignment, and its request that waits."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    # Until its first join is answered it does not know its member id, so it sends no heartbeats.
    is_new: bool = False
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None

    @property
    def is_static(self) -> bool:
        """True when it keeps its place across restarts (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """True when a parked request shows that it is alive; not for a new member."""
        return not self.is_new and (
            self.awaiting_join is not None or self.awaiting_sync is not None
        )

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return its subscription for a protocol. Raises KeyError for one that it did not offer."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(protocol_name)
