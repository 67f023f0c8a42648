"""The HTTP pages of a node, for what Kafka's protocol has no request.

Only a barnabas node with `barnabas.metrics.port` serves them.
"""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from barnabas.cli.client_options import admin_kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.cli.client_options import Client

_OK = 200
_PORT = "barnabas.metrics.port"
_HOST = "barnabas.metrics.host"
_ANY_ADDRESS = ("", "0.0.0.0", "::")


class NoPageError(Exception):
    """There is no page; the text says why."""


def page(client: Client, node: Any, path: str, timeout_s: float = 5.0) -> str:
    """Return a page of a node, which has an id and a host.

    Raises NoPageError.
    """
    host, port = _endpoint(broker_configs(client, node.id), node)
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
        if response.status != _OK:
            raise NoPageError(f"{host}:{port} answers {response.status}: {text.strip()}")
        return text
    except (OSError, HTTPException) as error:
        raise NoPageError(f"{host}:{port} cannot be reached: {error}") from error
    finally:
        connection.close()


def broker_configs(client: Client, broker_id: int) -> Mapping[str, Any]:
    """Return the properties of a broker."""
    kinds = admin_kinds()
    resource = kinds.ConfigResource(kinds.ConfigResource.Type.BROKER, str(broker_id))
    (future,) = client.admin.describe_configs([resource]).values()
    return client.wait(future, f"properties of broker {broker_id}")


def _endpoint(configs: Mapping[str, Any], node: Any) -> tuple[str, int]:
    broker = f"broker {node.id}"
    if _PORT not in configs:
        raise NoPageError(f"{broker} is not a barnabas server")
    port = int(configs[_PORT].value)
    if port < 0:
        raise NoPageError(f"the HTTP endpoint of {broker} is off; set {_PORT} to turn it on")
    if port == 0:
        raise NoPageError(f"{_PORT} of {broker} is 0, a free port; set a fixed one")
    host = configs[_HOST].value
    return node.host if host in _ANY_ADDRESS else host, port
