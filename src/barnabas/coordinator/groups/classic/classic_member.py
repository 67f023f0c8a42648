"""One member of a classic group."""

from collections.abc import Sequence

import attrs

from barnabas.coordinator.core.coordinator_output import Token

# A protocol's name and the member's subscription for it, in the member's order of preference.
Protocols = Sequence[tuple[str, bytes]]


@attrs.define
class ClassicMember:
    """What a member said of itself, what it was assigned, and which request of it waits."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    # Until its first join is answered it knows no member id, so it cannot heartbeat.
    is_new: bool = False
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place across restarts (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """A member with a parked request shows that it lives; a new one must not rely on that."""
        return not self.is_new and (
            self.awaiting_join is not None or self.awaiting_sync is not None
        )

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its subscription for a protocol; KeyError for one that it did not offer."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(protocol_name)
