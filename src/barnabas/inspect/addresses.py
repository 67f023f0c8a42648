"""Broker addresses in responses, replaced so that clients stay on the proxy.

A client connects to the brokers that a response names. Each of these brokers gets an address of the
proxy, and the response is encoded again with it; every other byte stays, including undeclared
tagged fields. Responses without brokers pass unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from barnabas.inspect.conversation import Frame

Address = tuple[str, int]
Local = Callable[[Address, bool], Awaitable[Address]]
"""Returns the proxy's address of a broker, given whether it is the only broker of its cluster."""

_METADATA: Final = 3
_FIND_COORDINATOR: Final = 10
_DESCRIBE_CLUSTER: Final = 60
# Produce, Fetch, ShareFetch and ShareAcknowledge name brokers when a leader has moved (KIP-951).
_WITH_ENDPOINTS: Final = frozenset((0, 1, 78, 79))
_NAMING: Final = frozenset((_METADATA, _FIND_COORDINATOR, _DESCRIBE_CLUSTER, *_WITH_ENDPOINTS))


def names_brokers(frame: Frame) -> bool:
    """True when responses of the api name brokers."""
    return frame.api is not None and not frame.is_request and frame.api.key in _NAMING


async def with_local_addresses(frame: Frame, local: Local) -> bytes:
    """Return the response, with its length, with the proxy's addresses; unchanged if it names no
    broker.
    """
    api = frame.api
    if api is None:
        return frame.data
    body = 8 + api.response_header_version(frame.version)
    try:
        message, end = api.response_type.decode_from(frame.data, body, frame.version)
    except (ProtocolError, ValueError):
        return frame.data
    only = api.key in (_METADATA, _DESCRIBE_CLUSTER) and len(_entries(api.key, message)) == 1
    changed = False
    for entry in _entries(api.key, message):
        address = (entry.host, entry.port)
        if entry.host and entry.port > 0:
            entry.host, entry.port = await local(address, only)
            changed = changed or (entry.host, entry.port) != address
    if not changed:
        return frame.data
    encoded = frame.data[4:body] + message.encode(frame.version) + frame.data[end:]
    return len(encoded).to_bytes(4) + encoded


def _entries(key: int, message: Any) -> list[Any]:
    return list(_named(key, message))


def _named(key: int, message: Any) -> Iterator[Any]:
    if key in (_METADATA, _DESCRIBE_CLUSTER):
        yield from message.brokers
    elif key == _FIND_COORDINATOR:
        yield message
        yield from message.coordinators
    else:
        yield from message.node_endpoints
