"""Requests that a runner on standby passes on to the active one, as Connect's REST API does.

Rows pass in both directions while the request lasts: those of an insert stream and its
acknowledgements at the same time, which httpx cannot, so this speaks HTTP/1.1 by h11. The end
of one connection is that of the other. Hops are counted as in `rest.request_forwarding`.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import h11
import trio

from barnabas.http import first_caller_headers
from barnabas.http.asgi import header
from barnabas.pipeline.rest.request_forwarding import (
    RETURNED_HEADERS,
    SENT_HEADERS,
    peer_context,
    query_of_next_hop,
)
from barnabas.pipeline.rest.sql.request_bodies import ClientGoneError
from barnabas.pipeline.rest.sql.sql_errors import NOT_READY, SERVER_ERROR, SqlRestError
from barnabas.sockets.keep_alive import end_when_host_vanishes

if TYPE_CHECKING:
    from barnabas.http import HttpTls
    from barnabas.http.asgi import Message, Receive, Scope, Send

_CONNECT_S: Final = 10.0
_READ_BYTES: Final = 1 << 16
_LENGTH: Final = "content-length"

PeerStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with a body that was read already."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def found() -> Message:
        return first.pop() if first else await receive()

    return found


class StandbyRelay:
    """Passes requests on to the active runner."""

    def __init__(self, tls: HttpTls | None = None) -> None:
        """Take the files of TLS of this runner, which others may share."""
        self._context = ssl.create_default_context() if tls is None else peer_context(tls)

    async def relay(self, active_url: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the active runner's response to a request.

        Raises SqlRestError: 50302 while no active runner is reached, or after two hops, 50000 when
        its response does not begin; ConnectionAbortedError when the response does not end;
        ClientGoneError.
        """
        stream, query = await self.connected(active_url, scope)
        async with stream:
            await _Exchange(stream, scope, receive, send).run(active_url, query)

    async def connected(self, active_url: str, scope: Scope) -> tuple[PeerStream, str]:
        """Connect to the active runner, and return the query of a request for it, too.

        Raises SqlRestError (50302).
        """
        query = query_of_next_hop(scope["query_string"].decode("latin-1"))
        if not active_url or query is None:
            raise SqlRestError(
                NOT_READY,
                "This runner stands by, and its group has no active runner that serves SQL now: "
                "send the request again in some seconds, or start one with --sql",
            )
        return await self._connected(active_url), query

    async def _connected(self, url: str) -> PeerStream:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            with trio.fail_after(_CONNECT_S):
                plain = await trio.open_tcp_stream(host, port)
                end_when_host_vanishes(plain)
                if parts.scheme != "https":
                    return plain
                secured = trio.SSLStream(
                    plain, self._context, server_hostname=host, https_compatible=True
                )
                await secured.do_handshake()
                return secured
        except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
            reason = error.__cause__ or error
            raise SqlRestError(
                NOT_READY,
                f"The active runner {url} is not reached: {reason or 'it does not answer'}. Send "
                "the request again: another runner takes over in some seconds",
            ) from None


class _Exchange:
    """One request and its response."""

    def __init__(self, stream: PeerStream, scope: Scope, receive: Receive, send: Send) -> None:
        self._stream = stream
        self._scope = scope
        self._receive = receive
        self._send = send
        self._connection = h11.Connection(h11.CLIENT)
        self._has_started = False
        self._is_gone = False

    async def run(self, url: str, query: str) -> None:
        try:
            await self._write(self._request(url, query))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_body, nursery.cancel_scope)
                await self._pass_response()
                nursery.cancel_scope.cancel()
        except* (OSError, trio.BrokenResourceError, h11.RemoteProtocolError) as errors:
            reason = errors.exceptions[0]
            message = f"The active runner {url} ended the connection: {reason}; see whether the "
            message += "statement has run before you send it again"
            if self._has_started:
                raise ConnectionAbortedError(message) from None
            raise SqlRestError(SERVER_ERROR, message) from None
        if self._is_gone:
            raise ClientGoneError

    def _request(self, url: str, query: str) -> h11.Request:
        scope = self._scope
        path = (
            (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].decode("latin-1")
        )
        found = {"host": urlsplit(url).netloc, "connection": "close"}
        for name in (*SENT_HEADERS, _LENGTH):
            value = header(scope, name.encode())
            if value is not None:
                found[name] = value.decode("latin-1")
        if scope["method"] == "POST" and _LENGTH not in found:
            found["transfer-encoding"] = "chunked"
        found |= first_caller_headers(scope, scope["method"], path)
        return h11.Request(
            method=scope["method"], target=f"{path}?{query}", headers=list(found.items())
        )

    async def _write(self, event: h11.Event) -> None:
        data = cast(bytes | None, cast(Any, self._connection).send(event))
        if data:
            await self._stream.send_all(data)

    async def _pass_body(self, ending: trio.CancelScope) -> None:
        """Send the body as it arrives, then wait for the client to go."""
        is_open = True
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._is_gone = True
                ending.cancel()
                return
            with suppress(h11.LocalProtocolError):  # the response ended before the body
                if message.get("body"):
                    await self._write(h11.Data(data=message["body"]))
                if is_open and not message.get("more_body", False):
                    is_open = False
                    await self._write(h11.EndOfMessage())

    async def _pass_response(self) -> None:
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                data = bytes(await self._stream.receive_some(_READ_BYTES))
                self._connection.receive_data(data)
            elif isinstance(event, h11.Response):
                await self._start(event)
            elif isinstance(event, h11.Data):
                body = bytes(event.data)
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
            elif isinstance(event, h11.EndOfMessage):
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            elif isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("it sent no response")

    async def _start(self, head: h11.Response) -> None:
        kept = {*RETURNED_HEADERS, _LENGTH}
        headers = [(name, value) for name, value in head.headers if name.decode() in kept]
        self._has_started = True
        await self._send(
            {"type": "http.response.start", "status": head.status_code, "headers": headers}
        )
