"""The causes of a group's rebalances, from the HTTP page of the group's coordinator.

In all cases without the page, the reason why there is no history is returned.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from barnabas.cli.node_pages import NoPageError, page

if TYPE_CHECKING:
    from barnabas.cli.client_options import Client


class NoHistoryError(Exception):
    """There is no history; the text says why."""


def rebalances(client: Client, group_id: str, coordinator: Any) -> list[dict[str, Any]]:
    """Return the last causes of a group's rebalances, the oldest first.

    Raises NoHistoryError when the coordinator does not serve them.
    """
    if coordinator is None:
        raise NoHistoryError("the group has no coordinator")
    try:
        found = page(client, coordinator, f"/groups/{quote(group_id, safe='')}/rebalances")
        return [_cause(one) for one in json.loads(found)["rebalances"]]
    except NoPageError as error:
        raise NoHistoryError(str(error)) from error
    except (KeyError, TypeError, ValueError) as error:
        raise NoHistoryError(f"broker {coordinator.id} sent no history: {error}") from error


def _cause(one: dict[str, Any]) -> dict[str, Any]:
    return {"time_ms": int(one["time_ms"]), "epoch": one["epoch"], "reason": one["reason"]}
