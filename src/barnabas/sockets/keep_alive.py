"""Connections that end when the other host vanishes, though nothing is sent on them."""

import socket
from typing import Any, Final, Protocol

_IDLE: Final = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))  # macOS
_SECONDS: Final = (
    (_IDLE, 15),
    (getattr(socket, "TCP_KEEPINTVL", None), 5),
    (getattr(socket, "TCP_KEEPCNT", None), 3),
)


class _Socket(Protocol):
    def setsockopt(self, level: int, option: int, value: int, /) -> Any: ...


def end_when_host_vanishes(connection: _Socket) -> None:
    """End a TCP connection whose peer answers no probe for half a minute: reads raise OSError."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _SECONDS:
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
