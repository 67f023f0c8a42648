"""The node's HTTP endpoint: `/metrics`, `/livez`, `/readyz`, and `/groups/GROUP/rebalances`.

`/livez` answers 200 as long as the node's loop runs, also while it waits for a quorum. `/readyz`
(and `/healthz`) answers 200 while the node serves clients: a broker must be unfenced.
h11 reads the requests and writes the responses. The endpoint takes GET and HEAD, one request per
connection, within a few seconds and 8 KiB, on a limited number of connections at a time: one more
closes the oldest.
"""

import json
import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

import attrs
import h11
import trio

from barnabas.protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.coordinator.groups.rebalance_history import Cause
    from barnabas.server.monitoring.metrics import Metrics

logger = logging.getLogger(__name__)

_REQUEST_BYTES_MAX: Final = 8192
_REQUEST_TIMEOUT_S: Final = 5.0
_CONNECTIONS_MAX: Final = 100
_RECEIVE_BYTES: Final = 4096
_TEXT: Final = "text/plain; charset=utf-8"
_BEFORE_GROUP, _AFTER_GROUP = "/groups/", "/rebalances"


class HttpAnswer(NamedTuple):
    """Status, body and content type of a response."""

    status: int
    body: bytes
    content_type: str = _TEXT


@attrs.frozen
class NodePages:
    """The pages of the endpoint and the parts of the node that they show."""

    metrics: "Metrics"
    has_started: Callable[[], bool]
    is_ready: Callable[[], bool]
    rebalance_causes: "Callable[[str], Sequence[Cause]]"
    """Returns the last causes of a group's rebalances, the oldest first; raises KafkaError."""

    def answer(self, method: str, target: str) -> HttpAnswer:
        """Return the response to a request."""
        if method not in ("GET", "HEAD"):
            return HttpAnswer(405, b"only GET and HEAD\n")
        path = target.partition("?")[0]
        if path == "/livez":
            return HttpAnswer(200, b"ok\n")
        if path in ("/readyz", "/healthz", "/health"):
            return HttpAnswer(200, b"ok\n") if self.is_ready() else HttpAnswer(503, b"no\n")
        if not self.has_started():
            return HttpAnswer(503, b"the node is starting\n")
        if path == "/metrics":
            return HttpAnswer(200, self.metrics.text(), self.metrics.content_type)
        if path.startswith(_BEFORE_GROUP) and path.endswith(_AFTER_GROUP):
            return self._rebalances(unquote(path[len(_BEFORE_GROUP) : -len(_AFTER_GROUP)]))
        return HttpAnswer(404, b"see /metrics, /livez, /readyz and /groups/GROUP/rebalances\n")

    def _rebalances(self, group_id: str) -> HttpAnswer:
        try:
            causes = self.rebalance_causes(group_id)
        except KafkaError as error:
            return _json(404, {"error": error.code.name, "message": error.message})
        rebalances = [{"time_ms": c.time_ms, "epoch": c.epoch, "reason": c.reason} for c in causes]
        return _json(200, {"group": group_id, "rebalances": rebalances})


def _json(status: int, value: object) -> HttpAnswer:
    return HttpAnswer(status, json.dumps(value).encode() + b"\n", "application/json")


async def serve_http(
    pages: NodePages,
    host: str,
    port: int,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; it has started with the port that it listens on."""
    listeners = await trio.open_tcp_listeners(port, host=host)
    bound = listeners[0].socket.getsockname()[1]
    logger.info("serving metrics url=http://%s:%d/metrics", host, bound)
    task_status.started(bound)
    await trio.serve_listeners(_Clients(pages).serve, listeners)


class _Clients:
    """The open connections, each with the scope that ends it."""

    def __init__(self, pages: NodePages) -> None:
        self._pages = pages
        self._open: dict[trio.SocketStream, trio.CancelScope] = {}  # the oldest first

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve a connection; close the oldest one when there are too many."""
        if len(self._open) >= _CONNECTIONS_MAX:
            self._open.pop(next(iter(self._open))).cancel()
            self._closed("connections")
        with trio.move_on_after(_REQUEST_TIMEOUT_S) as scope:
            self._open[stream] = scope
            await _serve_connection(self._pages, stream)
        if self._open.pop(stream, None) is not None and scope.cancelled_caught:
            self._closed("time")
        await trio.aclose_forcefully(stream)

    def _closed(self, limit: str) -> None:
        self._pages.metrics.endpoint_closings[limit] += 1
        logger.debug("closing a connection of the metrics endpoint limit=%s", limit)


async def _serve_connection(pages: NodePages, stream: trio.SocketStream) -> None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_REQUEST_BYTES_MAX)
    try:
        await _serve_request(pages, connection, stream)
    except (trio.BrokenResourceError, h11.LocalProtocolError):
        logger.debug("the HTTP client closed the connection")


async def _serve_request(
    pages: NodePages, connection: h11.Connection, stream: trio.SocketStream
) -> None:
    method = ""
    try:
        request = await _receive(connection, stream)
        if request is None:
            return
        method = request.method.decode("ascii")
        answer = pages.answer(method, request.target.decode("ascii"))
    except h11.RemoteProtocolError as error:
        answer = HttpAnswer(error.error_status_hint, f"{error}\n".encode())
    headers = [
        ("Content-Type", answer.content_type),
        ("Content-Length", str(len(answer.body))),
        ("Connection", "close"),
    ]
    events: list[h11.Event] = [
        h11.Response(
            status_code=answer.status, reason=HTTPStatus(answer.status).phrase, headers=headers
        )
    ]
    if method != "HEAD":
        events.append(h11.Data(data=answer.body))
    events.append(h11.EndOfMessage())
    await stream.send_all(b"".join(connection.send(event) or b"" for event in events))


async def _receive(connection: h11.Connection, stream: trio.SocketStream) -> h11.Request | None:
    """Return the request; None when the client closes instead."""
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await stream.receive_some(_RECEIVE_BYTES))
    return event if isinstance(event, h11.Request) else None
