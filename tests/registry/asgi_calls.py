"""Calls of an ASGI application without a server: one request, one answer."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import attrs
import trio

SCHEMA_JSON = "application/vnd.schemaregistry.v1+json"


@attrs.frozen
class HttpAnswer:
    """Status, headers and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: Any,
    method: str,
    target: str,
    body: bytes | str | Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """Send a request to the application and return its answer."""
    path, _, query = target.partition("?")
    if isinstance(body, Mapping):
        body = json.dumps(body)
    data = body.encode() if isinstance(body, str) else body or b""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
        "server": ("127.0.0.1", 8081),
        "client": ("127.0.0.1", 1),
        "scheme": "http",
    }
    sent: list[dict[str, Any]] = []
    received = iter([{"type": "http.request", "body": data, "more_body": False}])

    async def receive() -> dict[str, Any]:
        try:
            return next(received)
        except StopIteration:
            await trio.sleep_forever()
            raise

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    chunks = [message.get("body", b"") for message in sent[1:]]
    found = {key.decode(): value.decode() for key, value in start["headers"]}
    return HttpAnswer(start["status"], found, b"".join(chunks))
