"""Requests from this node to the active controller, and the responses to them.

A channel takes and returns the messages of Kafka's protocol. The local end hands the encoded
request to the dispatcher of this node's controller listener and decodes the response that the
dispatcher encodes, so that a request takes the same path as one from a socket. `quorum_channel`
finds the active controller; `remote_controller` is the end of another node.
"""

from typing import Any, Final, Protocol, TypeVar

from barnabas.protocol.apis import API
from barnabas.protocol.errors import KafkaError, error_code
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages_base import Message
from barnabas.server.api.context import AnyContext
from barnabas.server.api.dispatch import Dispatcher
from barnabas.server.api.embedded_requests import EmbeddedPeer, answer, decode_response

ResponseT = TypeVar("ResponseT", bound=Message)

_FRAME_LENGTH_BYTES: Final = 4


class ControllerChannel(Protocol):
    """Carries requests to the active controller."""

    async def send(
        self,
        request: Message,
        response_type: type[ResponseT],
        *,
        version: int | None = None,
        on_behalf_of: AnyContext | None = None,
    ) -> ResponseT:
        """Send a request and return its response, which may contain error codes.

        `on_behalf_of` is the context of the client's request that is forwarded; its version is
        used. Without it, the node itself sends the request, in the latest version that the
        controller serves, or in `version`.

        Raises KafkaError: REQUEST_TIMED_OUT when no controller answers in time,
        UNSUPPORTED_VERSION when the controller does not serve the version, and
        UNKNOWN_SERVER_ERROR when the controller does not accept the forwarded request.
        """
        ...


class LocalControllerChannel:
    """The channel of a node whose own controller is the active one.

    `send` raises KafkaError NOT_CONTROLLER when it is not.
    """

    def __init__(self, dispatcher: Dispatcher, *, client_id: str) -> None:
        self._dispatcher = dispatcher
        self._client_id = client_id
        self._node = EmbeddedPeer("User:ANONYMOUS", "127.0.0.1", "CONTROLLER")

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


def expect(response: Message, response_type: type[ResponseT]) -> ResponseT:
    """Return a response of its type. Raises TypeError when it is of another one."""
    if not isinstance(response, response_type):
        raise TypeError(f"{type(response).__name__} is no {response_type.__name__}")
    return response


def raise_error(response: Any) -> None:
    """Raise the KafkaError of a response whose top level has an error code."""
    if response.error_code:
        code = error_code(response.error_code)
        raise KafkaError(code, getattr(response, "error_message", None) or code.name)
