"""A WebSocket that a runner on standby passes on to the active one.

The active runner's frames of text pass on, and its close frame; the client's do not, since no query
reads them. The end of one WebSocket is that of the other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import RemoteProtocolError

from barnabas.http import first_caller_headers
from barnabas.http.asgi import header
from barnabas.pipeline.rest.sql.query_runs import until_gone
from barnabas.pipeline.rest.sql.sql_errors import NOT_READY, SERVER_ERROR, SqlRestError

if TYPE_CHECKING:
    from barnabas.http.asgi import Receive, Scope, Send
    from barnabas.pipeline.rest.sql.standby_relay import PeerStream, StandbyRelay

_READ_BYTES: Final = 1 << 16
_AUTHORIZATION: Final = b"authorization"
_UNAVAILABLE: Final = 503


async def relay_socket(
    relay: StandbyRelay, active_url: str, scope: Scope, receive: Receive, send: Send
) -> None:
    """Send the active runner's frames to a client whose WebSocket was accepted.

    Raises SqlRestError: 50302 while no active runner is reached, 50000 when it ends the connection.
    """
    stream, query = await relay.connected(active_url, scope)
    async with stream:
        await _Passing(stream, scope, receive, send).run(active_url, query)


class _Passing:
    """One WebSocket to the active runner."""

    def __init__(self, stream: PeerStream, scope: Scope, receive: Receive, send: Send) -> None:
        self._stream = stream
        self._scope = scope
        self._receive = receive
        self._send = send
        self._socket = WSConnection(ConnectionType.CLIENT)
        self._text: list[str] = []
        self._failure: SqlRestError | None = None

    async def run(self, url: str, query: str) -> None:
        try:
            await self._write(self._request(url, query))
            await until_gone(self._receive, partial(self._pass_frames, url))
        except* (OSError, trio.BrokenResourceError, RemoteProtocolError) as errors:
            reason = errors.exceptions[0]
            raise _ended(url, str(reason)) from None
        if self._failure is not None:
            raise self._failure

    def _request(self, url: str, query: str) -> Request:
        raw: bytes = self._scope.get("raw_path") or self._scope["path"].encode()
        path = raw.partition(b"?")[0].decode("latin-1")
        found = first_caller_headers(self._scope, "GET", path)
        sent = [(name.encode(), value.encode("latin-1")) for name, value in found.items()]
        given = header(self._scope, _AUTHORIZATION)
        if given is not None:
            sent.append((_AUTHORIZATION, given))
        return Request(host=urlsplit(url).netloc, target=f"{path}?{query}", extra_headers=sent)

    async def _pass_frames(self, url: str) -> None:
        while True:
            data = bytes(await self._stream.receive_some(_READ_BYTES))
            self._socket.receive_data(data or None)
            for event in self._socket.events():
                if await self._pass(event, url):
                    return
            if not data:
                self._failure = _ended(url, "it closed without a reason")
                return

    async def _pass(self, event: Event, url: str) -> bool:
        """Pass on what has come; return True behind the end."""
        if isinstance(event, RejectConnection):
            self._failure = _refused(url, event.status_code)
            return True
        if isinstance(event, Ping):
            await self._write(event.response())
        elif isinstance(event, TextMessage):
            self._text.append(event.data)
            if event.message_finished:
                await self._send({"type": "websocket.send", "text": "".join(self._text)})
                self._text.clear()
        elif isinstance(event, CloseConnection):
            end: dict[str, Any] = {"code": event.code, "reason": event.reason or ""}
            await self._send({"type": "websocket.close", **end})
            return True
        return False

    async def _write(self, event: Event) -> None:
        await self._stream.send_all(self._socket.send(event))


def _ended(url: str, reason: str) -> SqlRestError:
    message = f"The active runner {url} ended the connection: {reason}. Open it again"
    return SqlRestError(SERVER_ERROR, message)


def _refused(url: str, status: int) -> SqlRestError:
    code = NOT_READY if status == _UNAVAILABLE else SERVER_ERROR
    return SqlRestError(
        code, f"The active runner {url} refused the WebSocket with the HTTP status {status}"
    )
