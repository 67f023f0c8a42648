"""Notices that a peer has gone while its request is parked: one epoll for all connections.

A parked task waits for data or time, not for its socket, so nobody would read the peer's FIN.
A connection is registered when it first parks and stays so: later parks cost nothing.
"""

import select
from typing import TYPE_CHECKING

from trio.lowlevel import wait_readable

if TYPE_CHECKING:
    from barnabas.server.transport.connection import Connection

_HAS_EPOLL = hasattr(select, "epoll")


class PeerWatch:
    """Tells connections of the end of what their peers send. Does nothing without epoll."""

    def __init__(self) -> None:
        self._epoll = select.epoll() if _HAS_EPOLL else None
        self._watched: dict[int, Connection] = {}

    def watch(self, connection: "Connection") -> None:
        """Have `connection.peer_hung_up` called, soon if it was seen before."""
        if connection.hung_up:
            connection.peer_hung_up(reset=False)
        elif not connection.watched and self._epoll is not None:
            connection.watched = True
            fd = connection.sock.fileno()
            self._watched[fd] = connection
            self._epoll.register(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)

    def forget(self, connection: "Connection") -> None:
        """Before the connection's socket closes."""
        if connection.watched and self._epoll is not None and not self._epoll.closed:
            fd = connection.sock.fileno()
            del self._watched[fd]
            self._epoll.unregister(fd)
            connection.watched = False

    async def run(self) -> None:
        """Pass events on until cancelled."""
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
        """Give the descriptor back."""
        if self._epoll is not None:
            self._epoll.close()
