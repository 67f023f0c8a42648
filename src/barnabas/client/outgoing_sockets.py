"""Outgoing connections: connect a socket to an address, then speak TLS on it where that is set."""

import os
import socket
import ssl
from typing import Final, cast

import trio

from barnabas import tasks
from barnabas.client.client_config import ClientConfig, TlsSettings
from barnabas.client.failures import (
    Address,
    BrokerGoneError,
    BrokerRefusedError,
    ConnectionFailureError,
    TlsError,
)
from barnabas.sockets.byte_stream import ByteStream
from barnabas.sockets.file_ranges import read_ahead_in_thread
from barnabas.sockets.socket_stream import SocketStream
from barnabas.sockets.tls_stream import RECEIVE_BYTES, TlsStream

local_address: Final = trio.lowlevel.RunVar[str | None]("local address", default=None)
"""The address from which this event loop's connections start; None: the system chooses."""


class Scratch:
    """The memory for received bytes, which the connections of an event loop share."""

    def __init__(self) -> None:
        self.plain = memoryview(bytearray(RECEIVE_BYTES))
        """Bytes of the protocol: each receive takes them out at once."""
        self.encrypted = memoryview(bytearray(RECEIVE_BYTES))
        """Records of TLS, before they are decrypted."""


class Sockets:
    """The sockets of the system; a simulation has its own in their place."""

    async def connect(self, address: Address, config: ClientConfig) -> ByteStream:
        """Connect to an address, with TLS where the configuration asks for it.

        Raises BrokerRefusedError when no process listens there, and other ConnectionFailureErrors.
        """
        sock = await connect_socket(address)
        if config.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.receive_buffer_bytes)
        return await stream_of(sock, address, config)


async def connect_socket(address: Address) -> socket.socket:
    """Return a non-blocking socket that is connected to an address.

    Raises BrokerRefusedError when no process listens there, and BrokerGoneError.
    """
    try:
        stream = await trio.open_tcp_stream(
            address.host, address.port, local_address=local_address.get()
        )
    except OSError as error:
        failure = BrokerRefusedError if _is_refused(error) else BrokerGoneError
        raise failure(address, _connect_reason(error)) from None
    except UnicodeError:  # a label of the host name is empty or too long
        raise BrokerGoneError(address, "the host name is invalid") from None
    sock = socket.socket(fileno=stream.socket.detach())
    sock.setblocking(False)
    return sock


async def stream_of(sock: socket.socket, address: Address, config: ClientConfig) -> ByteStream:
    """Return the bytes of a connected socket, after the TLS handshake where there is TLS.

    Raises ConnectionFailureError, and ConfigError for unusable TLS settings; then, and when it is
    cancelled, the socket is closed.
    """
    if config.tls is None:
        return SocketStream(sock, read_ahead_in_thread)
    try:
        context = _context(config.tls)
    except BaseException:
        sock.close()
        raise
    scratch = tasks.local(Scratch).encrypted
    stream = TlsStream(sock, context, read_ahead_in_thread, scratch, server_name=address.host)
    try:
        await stream.handshake()
    except OSError as error:
        stream.close()
        if isinstance(error, ssl.SSLError):
            raise TlsError(address, f"TLS handshake failed: {tls_reason(error)}") from None
        raise BrokerGoneError(address, "the connection was reset in the TLS handshake") from None
    except BaseException:
        stream.close()
        raise
    return stream


def _context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a new connection. Raises ConfigError."""
    if settings.source is not None:
        return settings.source()
    from barnabas.client.client_tls import tls_context

    return tls_context(settings)


def failure_of(address: Address, error: OSError) -> ConnectionFailureError:
    """Return the failure of an open connection whose stream raised an error."""
    if isinstance(error, ssl.SSLError):
        # With TLS 1.3 a server examines the client's certificate after the handshake.
        return TlsError(address, f"the peer refuses the TLS connection: {tls_reason(error)}")
    return BrokerGoneError(address, "the connection was reset")


def tls_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's name of what failed, and which check of a certificate it was."""
    reason = error.reason or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{reason}: {error.verify_message}"
    return reason


def _connect_reason(error: OSError) -> str:
    """Return why a connection failed, in a few words."""
    causes = [item for item in _attempts(error.__cause__) if isinstance(item, OSError)] or [error]
    return "; ".join(dict.fromkeys(_reason(item) for item in causes))


def _is_refused(error: OSError) -> bool:
    """True when every attempt to connect was refused, so that no process listens there."""
    attempts = _attempts(error.__cause__)
    return all(isinstance(attempt, ConnectionRefusedError) for attempt in attempts)


def _reason(error: OSError) -> str:
    """Return the system's text for an error; those of address look-ups have their own."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _attempts(cause: BaseException | None) -> tuple[BaseException | None, ...]:
    """Return the failures of the attempts that trio made, one for each address of a name."""
    if isinstance(cause, ExceptionGroup):
        return cast("ExceptionGroup[Exception]", cause).exceptions
    return (cause,)
