"""Elections of the quorum's leader, as this node sees them."""

from typing import Final

import attrs

from barnabas.cluster.quorum.raft_state import Role

_ELECTING: Final = (Role.PROSPECTIVE, Role.CANDIDATE)


@attrs.define
class ElectionTimes:
    """Counts since the start of the node.

    `new_controllers` are leaderships that this node learned of (Kafka's NewActiveControllersCount).
    `elections` are those in which it took part, and `seconds` their time, from the first request
    for votes until a leader was known (election-latency).
    """

    new_controllers: int = 0
    elections: int = 0
    seconds: float = 0.0
    _began_ms: int | None = None
    _leadership: tuple[int, int] | None = None

    def follow(self, role: Role, leader_id: int | None, epoch: int, now_ms: int) -> None:
        """Note the state of the Raft core after an event."""
        if role in _ELECTING:
            if self._began_ms is None:
                self._began_ms = now_ms
            return
        if leader_id is None or self._leadership == (leader_id, epoch):
            return
        self._leadership = leader_id, epoch
        self.new_controllers += 1
        if self._began_ms is not None:
            self.elections += 1
            self.seconds += (now_ms - self._began_ms) / 1000
            self._began_ms = None
