"""A node's listeners as the metadata describes them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.cluster.metadata.image import Endpoint
from barnabas.config import Listener

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

# org.apache.kafka.common.security.auth.SecurityProtocol
_SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


def registered(node: "Node", listeners: Iterable[Listener]) -> tuple[Endpoint, ...]:
    """Return the endpoints for a registration; port 0 is replaced by the bound port."""
    return tuple(
        Endpoint(point.name, point.host, point.port, _SECURITY_PROTOCOLS[point.security_protocol])
        for point in node.advertised(tuple(listeners))
    )
