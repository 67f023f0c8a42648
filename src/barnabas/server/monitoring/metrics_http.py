"""The endpoint for `/metrics` and `/healthz`: two fixed answers, so no framework is loaded.

One request a connection, GET or HEAD, within a few seconds and 8 KiB; everything else is refused.
"""

import logging
from typing import TYPE_CHECKING

import trio

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
    else:
        status, body = b"404 Not Found", b"there is /metrics and /healthz\n"
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (
        status,
        kind,
        len(body),
    )
    return head if method == b"HEAD" else head + body
