"""Handlers of views: look up a key, page through rows. Java's Connect has nothing like them."""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from barnabas.pipeline.connect.rest_errors import ConnectRestError, bad_request, not_found
from barnabas.pipeline.rest.connect_calls import OK, Answer, ConnectCall, route
from barnabas.pipeline.views.live_view import LiveView, ViewFailedError, ViewNotReadyError
from barnabas.pipeline.views.view_answers import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    found_rows,
    page_of_rows,
    view_state,
)

T = TypeVar("T")

_UNAVAILABLE: Final = 503


@route("GET /views")
async def list_views(call: ConnectCall) -> Answer:
    """List the views that run, with their states."""
    call.context.service.check_active()
    return Answer(OK, {name: view_state(view) for name, view in call.context.views().items()})


@route("GET /views/{view}")
async def get_rows(call: ConnectCall) -> Answer:
    """Get rows in the order of their keys: `from`, `to`, `limit`, and `after` for the next page."""
    view = _view(call)
    low, high, after = (_text(call, name) for name in ("from", "to", "after"))
    limit = _number(call, "limit")
    limit = LIMIT_DEFAULT if limit is None else limit
    if not 1 <= limit <= LIMIT_MAX:
        raise bad_request(f"limit={limit} must be between 1 and {LIMIT_MAX}")
    return Answer(OK, await _asked(lambda: page_of_rows(view, low, high, after, limit)))


@route("GET /views/{view}/{key}")
async def get_row(call: ConnectCall) -> Answer:
    """Get the row of a key, or the rows of its windows (`from_ms`, `to_ms`)."""
    view, key = _view(call), call.places["key"]
    from_ms, to_ms = _number(call, "from_ms"), _number(call, "to_ms")
    found = await _asked(lambda: found_rows(view, key, from_ms, to_ms))
    if found is None:
        raise not_found(f"The view {call.places['view']} has no row with the key {key}")
    return Answer(OK, found)


def _view(call: ConnectCall) -> LiveView:
    """Return the view that the path names. Raises ConnectRestError (403, 404, 409, 503)."""
    call.context.service.check_active()
    name = call.places["view"]
    stored = call.context.service.state.connectors.get(name)
    if stored is not None:
        call.rights.check_rows(stored.config)
    found = call.context.views().get(name)
    if found is not None:
        return found
    if stored is None:
        raise not_found(f"No view has the name {name}")
    raise ConnectRestError(_UNAVAILABLE, f"{name} does not run as a view now (see its status)")


async def _asked(query: Callable[[], T]) -> T:
    """Return the answer of a query, which runs in a thread. Raises ConnectRestError."""
    try:
        return await trio.to_thread.run_sync(query)
    except ValueError as error:
        raise bad_request(str(error)) from None
    except (ViewNotReadyError, ViewFailedError) as error:
        raise ConnectRestError(_UNAVAILABLE, str(error)) from None


def _text(call: ConnectCall, name: str) -> str | None:
    values = call.texts(name)
    return values[0] if values else None


def _number(call: ConnectCall, name: str) -> int | None:
    """Return a query parameter that is a number. Raises ConnectRestError (400)."""
    text = _text(call, name)
    if text is None:
        return None
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 18:
        raise bad_request(f"{name}={text} is not a number")
    return int(text)
