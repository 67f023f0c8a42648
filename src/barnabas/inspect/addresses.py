"""Addresses that a server tells its clients, replaced so that they stay on the proxy.

A client connects to the brokers that answers name. Each broker that is named gets an address of
the proxy's, and the answer is encoded again with that; every other byte stays as it was, tagged
fields that nobody declared included. Answers without brokers pass untouched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from barnabas.inspect.conversation import Frame

Address = tuple[str, int]
Local = Callable[[Address, bool], Awaitable[Address]]
"""Gives the proxy's address of a broker; told whether it is the only one of its cluster."""

_METADATA: Final = 3
_FIND_COORDINATOR: Final = 10
_DESCRIBE_CLUSTER: Final = 60
# Produce, Fetch, ShareFetch and ShareAcknowledge name brokers when leaders have moved (KIP-951).
_WITH_ENDPOINTS: Final = frozenset((0, 1, 78, 79))
_NAMING: Final = frozenset((_METADATA, _FIND_COORDINATOR, _DESCRIBE_CLUSTER, *_WITH_ENDPOINTS))


def names_brokers(frame: Frame) -> bool:
    """Whether a response is of an api whose answers name brokers."""
    return frame.api is not None and not frame.is_request and frame.api.key in _NAMING


async def with_local_addresses(frame: Frame, local: Local) -> bytes:
    """The response, with its length, naming the proxy's addresses; as it was if it names none."""
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
