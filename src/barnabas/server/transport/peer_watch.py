"""Detects that a peer closed while its request is parked: one epoll for all connections.

A parked task waits for data or time, not for its socket, so it does not read the peer's FIN. A
connection is registered when it first parks and stays registered: later parks cost nothing.
"""

import select
from typing import TYPE_CHECKING

from trio.lowlevel import wait_readable

if TYPE_CHECKING:
    from barnabas.server.transport.connection import Connection

_HAS_EPOLL = hasattr(select, "epoll")


class PeerWatch:
    """Notifies connections of the end of their peer's data. Does nothing without epoll."""

    def __init__(self) -> None:
        self._epoll = select.epoll() if _HAS_EPOLL else None
        self._watched: dict[int, Connection] = {}

    def watch(self, connection: "Connection") -> None:
        """Call `connection.peer_hung_up` when the peer closes, soon if it closed before."""
        if connection.hung_up:
            connection.peer_hung_up(reset=False)
        elif not connection.watched and self._epoll is not None:
            connection.watched = True
            fd = connection.fd
            self._watched[fd] = connection
            self._epoll.register(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)

    def forget(self, connection: "Connection") -> None:
        """Remove a connection; must be called before its socket closes."""
        if connection.watched and self._epoll is not None and not self._epoll.closed:
            fd = connection.fd
            del self._watched[fd]
            self._epoll.unregister(fd)
            connection.watched = False

    async def run(self) -> None:
        """Deliver events until cancelled."""
        if self._epoll is None:
            return
        gone = select.EPOLLHUP | select.EPOLLERR
        while True:
            await wait_readable(self._epoll.fileno())
            for fd, events in self._epoll.poll(0):
                connection = self._watched.get(fd)
                if connection is not None:
                    connection.peer_hung_up(reset=bool(events & gone))

    def close(self) -> None:
        """Close the epoll descriptor."""
        if self._epoll is not None:
            self._epoll.close()
