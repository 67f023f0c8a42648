"""The runner's answers about views: JSON of rows, and pages of them."""

import base64
import binascii
from itertools import islice
from typing import Any, Final

from barnabas.pipeline.views.live_view import LiveView, ViewRow
from barnabas.pipeline.views.view_keys import BadViewKeyError, RowKey

LIMIT_MAX: Final = 10_000
LIMIT_DEFAULT: Final = 100


def view_state(view: LiveView) -> dict[str, Any]:
    """Return a view's state."""
    figures = view.figures
    return {
        "topic": view.spec.topic,
        "is_ready": view.is_built,
        "windows": view.spec.keys.form.value,
        "records": figures.records,
        "lag_records": sum(
            max(0, end - figures.positions.get(partition, 0))
            for partition, end in figures.ends.items()
        ),
        "current_at_ms": view.current_at_ms,
        "rebuilds": figures.rebuilds,
        "rebuilt_because": figures.rebuilt_because,
    }


def found_rows(
    view: LiveView, key: str, from_ms: int | None, to_ms: int | None
) -> dict[str, Any] | None:
    """Return the row of a key, or the rows of its windows; None when there is none.

    Raises ValueError for a key of another type, ViewNotReadyError and ViewFailedError.
    """
    if not view.spec.keys.is_windowed:
        found = view.get_row(key)
        return None if found is None else row_json(found)
    rows = view.windows(key, from_ms, to_ms)
    return {"rows": [row_json(row) for row in rows]} if rows else None


def page_of_rows(
    view: LiveView, low: str | None, high: str | None, after: str | None, limit: int
) -> dict[str, Any]:
    """Return up to `limit` rows after the page that gave `after`, and how to get more.

    Raises ValueError for a key of another type or a bad `after`, ViewNotReadyError and
    ViewFailedError.
    """
    bounds = [None if each is None else view.spec.key.encode(each) for each in (low, high)]
    rows = view.page(bounds[0], bounds[1], _position(view, after))
    page = list(islice(rows, limit))
    has_more = len(page) == limit
    token = view.spec.keys.record_key(page[-1][0]) if has_more else None
    return {
        "rows": [row_json(row) for _, row in page],
        "next": None if token is None else base64.urlsafe_b64encode(token).decode(),
    }


def _position(view: LiveView, after: str | None) -> RowKey | None:
    if after is None:
        return None
    try:
        return view.spec.keys.row_key(base64.b64decode(after, b"-_", validate=True))
    except (binascii.Error, BadViewKeyError):
        raise ValueError(f"after={after} is not the `next` of an answer of this view") from None


def row_json(row: ViewRow) -> dict[str, Any]:
    """Return a row as JSON."""
    found = {"key": row.key, "value": row.value, "timestamp": row.timestamp}
    if row.window is not None:
        found["window"] = {"start_ms": row.window[0], "end_ms": row.window[1]}
    return found
