"""Requests from this node to the active controller, and the responses to them.

A channel takes and returns the messages of Kafka's protocol. The local end hands the encoded
request to the dispatcher of this node's controller listener and decodes the response that the
dispatcher encodes, so that a request takes the same path as one from a socket.
"""

from inspect import iscoroutine
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

import attrs

from barnabas.protocol.apis import API
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages_base import Message
from barnabas.server.api.context import Peer
from barnabas.server.api.dispatch import Dispatcher

ResponseT = TypeVar("ResponseT", bound=Message)

_FRAME_LENGTH_BYTES: Final = 4
_CORRELATION_ID_BYTES: Final = 4


class ControllerChannel(Protocol):
    """Carries requests to the active controller."""

    async def send(
        self,
        request: Message,
        response_type: type[ResponseT],
        *,
        version: int | None = None,
        on_behalf_of: Peer | None = None,
    ) -> ResponseT:
        """Send a request and return its response, which may contain error codes.

        Without a `version`, the latest stable one is used. `on_behalf_of` is the client whose
        request is forwarded; without it, the node itself sends the request. Raises KafkaError when
        no controller can be reached.
        """
        ...


@attrs.define
class LocalPeer:
    """The sender of a request that comes through the local end of a channel."""

    principal: str
    client_host: str
    listener_name: str

    def close(self) -> None:
        """Raise RuntimeError: there is no connection to close."""
        raise RuntimeError("a controller operation cannot close the local channel")


class LocalControllerChannel:
    """The channel of a node whose own controller is the active one."""

    def __init__(self, dispatcher: Dispatcher, *, client_id: str) -> None:
        self._dispatcher = dispatcher
        self._client_id = client_id
        self._node = LocalPeer("User:ANONYMOUS", "127.0.0.1", "CONTROLLER")

    async def send(
        self,
        request: Message,
        response_type: type[ResponseT],
        *,
        version: int | None = None,
        on_behalf_of: Peer | None = None,
    ) -> ResponseT:
        """Have the controller listener's dispatcher answer the request (`ControllerChannel`)."""
        if version is None:
            version = API[request.API_KEY].advertised[1]
        peer = self._node
        if on_behalf_of is not None:
            peer = attrs.evolve(
                peer, principal=on_behalf_of.principal, client_host=on_behalf_of.client_host
            )
        frame = b"".join(encode_request(0, self._client_id, request, version))
        response = await self._answer(peer, bytearray(frame[_FRAME_LENGTH_BYTES:]))
        start = _FRAME_LENGTH_BYTES + _CORRELATION_ID_BYTES
        start += API[request.API_KEY].response_header_version(version)  # 1: no tagged fields
        return response_type.decode(response[start:], version)

    async def _answer(self, peer: LocalPeer, frame: bytearray) -> bytes:
        dispatcher = self._dispatcher
        context = dispatcher.decode(peer, frame)
        context.started_at = monotonic()
        try:
            response: Any = context.route.handler(context, context.request)
            if iscoroutine(response):
                response = await response
        except Exception as error:
            response = error
        return b"".join(dispatcher.encode(context, response))


def raise_error(response: Any) -> None:
    """Raise the KafkaError of a response whose top level has an error code."""
    if response.error_code:
        code = ErrorCode(response.error_code)
        raise KafkaError(code, getattr(response, "error_message", None) or code.name)
