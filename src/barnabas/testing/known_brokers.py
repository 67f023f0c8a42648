"""The brokers in the Metadata response of a node, for tests in threads without an event loop."""

import socket
from typing import Final

from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse

_VERSION: Final = 9
_CORRELATION_ID: Final = 1
_TIMEOUT_S: Final = 10.0


def known_brokers(port: int) -> set[int]:
    """Return the ids of the brokers that a node names; empty when it does not answer."""
    request = encode_request(_CORRELATION_ID, "testing", MetadataRequest(topics=[]), _VERSION)
    try:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
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
