"""The time for which a quota holds a client back: nothing is read or handled (KIP-219)."""

from collections.abc import Callable
from time import monotonic

import trio


class Mute:
    """The time until which a client is held back, in monotonic seconds; 0 when it is not.

    Kafka keeps a muted connection until its time is over, or until it has been idle for
    connections.max.idle.ms. Here one that the client has closed frees its place at once, unless it
    has sent more requests: these are carried out after the time, as in Kafka.
    """

    __slots__ = ("_hung_up", "until_s")

    def __init__(self) -> None:
        self.until_s = 0.0
        self._hung_up: trio.Event | None = None

    def extend(self, throttle_ms: int) -> None:
        """Hold the client back for this time from now on, unless it is for longer already."""
        if throttle_ms:
            self.until_s = max(self.until_s, monotonic() + throttle_ms / 1000)

    def peer_hung_up(self) -> bool:
        """Notice that the peer has closed; return True when `over` decides what follows."""
        if self._hung_up is None:
            return False
        self._hung_up.set()
        return True

    async def over(self, watch: Callable[[], object], owes: Callable[[], bool]) -> None:
        """Wait for the end of the time, or until the peer has closed.

        `watch` lets `peer_hung_up` be called. `owes` returns True when requests of a peer that has
        closed are still to be carried out.
        """
        self._hung_up = trio.Event()
        watch()
        try:
            while (left_s := self.until_s - monotonic()) > 0:  # it may be extended meanwhile
                with trio.move_on_after(left_s):
                    await self._hung_up.wait()
                    if not owes():
                        break
                    await trio.sleep_forever()
        finally:
            self._hung_up = None
        self.until_s = 0.0
