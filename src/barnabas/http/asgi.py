"""The types of ASGI, and small answers that need no framework."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, NamedTuple

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Any ASGI application, such as a Starlette object."""

Headers = list[tuple[bytes, bytes]]

JSON_TYPE: Final = b"application/json"


class Body(NamedTuple):
    """The body of a response and its media type."""

    media_type: bytes
    data: bytes


ErrorBody = Callable[[int, str], Body]
"""Returns the body of an error response, from its HTTP status and a message."""


def json_error(status: int, message: str) -> Body:
    """Return the error body of Confluent's REST services, with the status as error code."""
    return Body(JSON_TYPE, json.dumps({"error_code": status, "message": message}).encode())


async def respond(send: Send, status: int, body: Body, headers: Headers | None = None) -> None:
    """Send a whole response."""
    fields = [
        (b"content-type", body.media_type),
        (b"content-length", b"%d" % len(body.data)),
        *(headers or ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body.data})


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return a request's first header of a lower-case name."""
    return next((value for key, value in scope["headers"] if key == name), None)
