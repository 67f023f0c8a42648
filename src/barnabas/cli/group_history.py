"""The causes of a group's rebalances, from the HTTP endpoint of the group's coordinator.

Kafka's protocol has no request for them. Only a barnabas node with `barnabas.metrics.port` serves
them; in all other cases the reason why there is no history is returned.
"""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from barnabas.cli.client_options import admin_kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.cli.client_options import Client

_TIMEOUT_S = 5.0
_OK = 200
_PORT = "barnabas.metrics.port"
_HOST = "barnabas.metrics.host"
_ANY_ADDRESS = ("", "0.0.0.0", "::")


class NoHistoryError(Exception):
    """There is no history; the text says why."""


def rebalances(client: Client, group_id: str, coordinator: Any) -> list[dict[str, Any]]:
    """Return the last causes of a group's rebalances, the oldest first.

    Raises NoHistoryError when the coordinator does not serve them.
    """
    if coordinator is None:
        raise NoHistoryError("the group has no coordinator")
    host, port = _endpoint(_broker_configs(client, coordinator.id), coordinator)
    connection = HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"/groups/{quote(group_id, safe='')}/rebalances")
        response = connection.getresponse()
        body = response.read()
        if response.status != _OK:
            text = body.decode(errors="replace").strip()
            raise NoHistoryError(f"{host}:{port} answers {response.status}: {text}")
        return [_cause(one) for one in json.loads(body)["rebalances"]]
    except (OSError, HTTPException) as error:
        raise NoHistoryError(f"{host}:{port} cannot be reached: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise NoHistoryError(f"{host}:{port} sent no history: {error}") from error
    finally:
        connection.close()


def _broker_configs(client: Client, broker_id: int) -> Mapping[str, Any]:
    kinds = admin_kinds()
    resource = kinds.ConfigResource(kinds.ConfigResource.Type.BROKER, str(broker_id))
    (future,) = client.admin.describe_configs([resource]).values()
    return client.wait(future, f"properties of broker {broker_id}")


def _endpoint(configs: Mapping[str, Any], coordinator: Any) -> tuple[str, int]:
    broker = f"broker {coordinator.id}"
    if _PORT not in configs:
        raise NoHistoryError(f"{broker} is not a barnabas server")
    port = int(configs[_PORT].value)
    if port < 0:
        raise NoHistoryError(f"the HTTP endpoint of {broker} is off; set {_PORT} to turn it on")
    if port == 0:
        raise NoHistoryError(f"{_PORT} of {broker} is 0, a free port; set a fixed one")
    host = configs[_HOST].value
    return coordinator.host if host in _ANY_ADDRESS else host, port


def _cause(one: dict[str, Any]) -> dict[str, Any]:
    return {"time_ms": int(one["time_ms"]), "epoch": one["epoch"], "reason": one["reason"]}
