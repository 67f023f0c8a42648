"""The node's HTTP endpoint: `/metrics`, `/healthz`, and `/groups/GROUP/rebalances`.

One request a connection, GET or HEAD, within a few seconds and 8 KiB; everything else is refused.
"""

import json
import logging
from typing import TYPE_CHECKING
from urllib.parse import unquote

import trio

from barnabas.protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

logger = logging.getLogger(__name__)

_REQUEST_BYTES_MAX = 8192
_REQUEST_TIMEOUT_S = 5.0


async def serve_http(node: "Node", host: str, port: int) -> None:
    """Answer until cancelled."""

    async def answer(stream: trio.SocketStream) -> None:
        try:
            with trio.move_on_after(_REQUEST_TIMEOUT_S):
                await stream.send_all(_response(node, await _request_line(stream)))
        except trio.BrokenResourceError:
            logger.debug("metrics reader went away")
        finally:
            await trio.aclose_forcefully(stream)

    listeners = await trio.open_tcp_listeners(port, host=host)
    bound = listeners[0].socket.getsockname()[1]
    logger.info("serving metrics url=http://%s:%d/metrics", host, bound)
    node.metrics_port = bound
    await trio.serve_listeners(answer, listeners)


async def _request_line(stream: trio.SocketStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        data = await stream.receive_some(4096)
        head += data
        if not data or len(head) > _REQUEST_BYTES_MAX:
            return b""
    return head.split(b"\r\n", 1)[0]


def _rebalances(node: "Node", group_id: str) -> tuple[bytes, bytes]:
    """Return status and body: the last causes of a group's rebalances, the oldest first."""
    try:
        causes = node.groups.rebalance_causes(group_id)
    except KafkaError as error:
        body = {"error": error.code.name, "message": error.message}
        return b"404 Not Found", json.dumps(body).encode() + b"\n"
    rebalances = [{"time_ms": c.time_ms, "epoch": c.epoch, "reason": c.reason} for c in causes]
    return b"200 OK", json.dumps({"group": group_id, "rebalances": rebalances}).encode() + b"\n"


def _response(node: "Node", request_line: bytes) -> bytes:
    method, _, rest = request_line.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    kind = b"text/plain; charset=utf-8"
    if method not in (b"GET", b"HEAD"):
        status, body = b"405 Method Not Allowed", b"only GET\n"
    elif path == b"/metrics":
        status, body = b"200 OK", node.metrics.text()
        kind = node.metrics.content_type.encode()
    elif path in (b"/healthz", b"/health"):
        status, body = (b"200 OK", b"ok\n") if node.ready else (b"503 Service Unavailable", b"no\n")
    elif path.startswith(b"/groups/") and path.endswith(b"/rebalances"):
        kind = b"application/json"
        status, body = _rebalances(node, unquote(path[len(b"/groups/") : -len(b"/rebalances")]))
    else:
        status, body = b"404 Not Found", b"see /metrics, /healthz and /groups/GROUP/rebalances\n"
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (
        status,
        kind,
        len(body),
    )
    return head if method == b"HEAD" else head + body
