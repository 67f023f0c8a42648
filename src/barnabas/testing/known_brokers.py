"""The brokers in the Metadata response of a node, for tests in threads without an event loop."""

import socket
from collections.abc import Mapping
from typing import Final

from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.testing.eventually import wait_until

_VERSION: Final = 9
_CORRELATION_ID: Final = 1
_TIMEOUT_S: Final = 10.0


def wait_until_known(addresses: Mapping[int, str]) -> None:
    """Return once each of these brokers names all of them. Raises TimeoutError.

    Clients drop their connections to a broker that another one does not name yet.
    """
    wait_until(lambda: all(known_brokers(each) >= addresses.keys() for each in addresses.values()))


def known_brokers(address: str) -> set[int]:
    """Return the ids of the brokers that the node at HOST:PORT names; empty without an answer."""
    host, _, port = address.rpartition(":")
    request = encode_request(_CORRELATION_ID, "testing", MetadataRequest(topics=[]), _VERSION)
    try:
        with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
            connection.sendall(b"".join(request))
            with connection.makefile("rb") as answer:
                size = int.from_bytes(answer.read(4), "big")
                frame = answer.read(size)
    except OSError:
        return set()
    if not frame or len(frame) != size:
        return set()
    response, _ = MetadataResponse.decode_from(frame, 5, _VERSION)  # 5: flexible response header
    return {broker.node_id for broker in response.brokers}
