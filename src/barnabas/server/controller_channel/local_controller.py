"""Requests to this node's own controller, while it is the active one.

The encoded request goes to the dispatcher of this node's controller listener, and the response that
the dispatcher encodes is decoded, so that a request takes the same path as one from a socket.
"""

from typing import Final

from barnabas.protocol.apis import API
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages_base import Message
from barnabas.security.principals import LOCAL_NODE
from barnabas.server.api.context import AnyContext
from barnabas.server.api.dispatch import Dispatcher
from barnabas.server.api.embedded_requests import EmbeddedPeer, answer, decode_response
from barnabas.server.controller_channel.controller_channel import ResponseT, expect

_FRAME_LENGTH_BYTES: Final = 4


class LocalControllerChannel:
    """The channel of a node whose own controller is the active one.

    `send` raises KafkaError NOT_CONTROLLER when it is not.
    """

    def __init__(self, dispatcher: Dispatcher, *, client_id: str) -> None:
        self._dispatcher = dispatcher
        self._client_id = client_id
        self._node = EmbeddedPeer(LOCAL_NODE, "127.0.0.1", "CONTROLLER")

    async def send(
        self,
        request: Message,
        response_type: type[ResponseT],
        *,
        version: int | None = None,
        on_behalf_of: AnyContext | None = None,
    ) -> ResponseT:
        """Have the controller listener's dispatcher answer the request (`ControllerChannel`)."""
        peer, client_id = self._node, self._client_id
        if on_behalf_of is not None:
            client = on_behalf_of.connection
            peer = EmbeddedPeer(client.principal, client.client_host, self._node.listener_name)
            version, client_id = on_behalf_of.version, on_behalf_of.client_id
        elif version is None:
            version = API[request.API_KEY].advertised[1]
        parts = encode_request(0, client_id, request, version)
        frame = bytearray(b"".join(parts)[_FRAME_LENGTH_BYTES:])
        data = await answer(self._dispatcher, self._dispatcher.decode(peer, frame))
        response = decode_response(request.API_KEY, version, data)
        return expect(response, response_type)
