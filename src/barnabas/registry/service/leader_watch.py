"""Evidence that the leader's process has ended: its connections close, and new ones are refused.

A process that is killed closes its connections at once, so an instance that holds one to the leader
learns of it within milliseconds. Silence proves nothing: a lost host is left to the session timeout
of the group.
"""

import ssl
from typing import cast

import trio

from barnabas.registry.service.election_protocol import InstanceAddress
from barnabas.registry.service.leader_forwarding import connected_stream

_CONNECT_TIMEOUT_S = 2.0
_REFUSALS = 2
_REFUSED_PAUSE_S = 0.05
_PAUSE_S = 0.3

# An instance that was never reached may be advertised at a wrong address: its processes run on.
_UNREACHED_PAUSE_S = 30.0
_AGAIN_PAUSE_S = 1.0


class LeaderWatch:
    """Watches one leader at a time."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._reported: dict[InstanceAddress, float] = {}
        """When an instance was last reported as gone, until it is reached again."""
        self._reached: set[InstanceAddress] = set()

    async def wait_gone(self, leader: InstanceAddress) -> None:
        """Return when an instance refuses connections.

        An instance that was not reached since the last time is reported again after a pause, a
        long one when it was never reached.
        """
        refusals = 0
        while refusals < _REFUSALS:
            is_refused = await self._hold(leader)
            refusals = refusals + 1 if is_refused else 0
            await trio.sleep(_REFUSED_PAUSE_S if is_refused else _PAUSE_S)
        since = self._reported.get(leader)
        if since is not None:
            pause_s = _AGAIN_PAUSE_S if leader in self._reached else _UNREACHED_PAUSE_S
            await trio.sleep_until(since + pause_s)
        self._reported[leader] = trio.current_time()

    async def _hold(self, leader: InstanceAddress) -> bool:
        """Connect and wait for the end of the connection; return True when it is refused."""
        stream: trio.abc.Stream | None = None
        with trio.move_on_after(_CONNECT_TIMEOUT_S):
            try:
                stream = await connected_stream(leader, self._tls)
            except OSError as error:
                return _is_refused(error)
        if stream is None:
            return False
        self._reported.pop(leader, None)
        self._reached.add(leader)
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(stream)
        return False


def _is_refused(error: OSError) -> bool:
    """True when each address of the host refuses the connection: no process listens there."""
    causes: tuple[BaseException | None, ...] = (error.__cause__,)
    if isinstance(error.__cause__, ExceptionGroup):
        causes = cast("ExceptionGroup[Exception]", error.__cause__).exceptions
    return all(isinstance(each, ConnectionRefusedError) for each in causes)
