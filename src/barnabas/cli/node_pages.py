"""The HTTP pages of a node, for what Kafka's protocol has no request.

Only a barnabas node with `barnabas.metrics.port` serves them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.client_options import admin_kinds
from barnabas.http_failures import reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.cli.client_options import Client

_PORT = "barnabas.metrics.port"
_HOST = "barnabas.metrics.host"
_ANY_ADDRESS = ("", "0.0.0.0", "::")


class NoPageError(Exception):
    """There is no page; the text says why."""


def page(client: Client, node: Any, path: str, timeout_s: float = 5.0) -> str:
    """Return a page of a node, which has an id and a host.

    Raises NoPageError.
    """
    import httpx

    host, port = _endpoint(broker_configs(client, node.id), node)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        # Nodes are reached without the proxies of the environment, and their pages are plain HTTP.
        with httpx.Client(timeout=timeout_s, trust_env=False, verify=False) as found:
            response = found.get(f"http://{address}{path}")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise NoPageError(f"http://{address} cannot be reached: {reason_of(error)}") from error
    text = response.content.decode(errors="replace")
    if not response.is_success:
        raise NoPageError(f"http://{address} answers {response.status_code}: {text.strip()}")
    return text


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
