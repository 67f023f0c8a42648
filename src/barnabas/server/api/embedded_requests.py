"""Requests that reach a dispatcher inside another message or call, not in a frame of a socket.

The controller listener's dispatcher answers requests that a broker forwards (`handlers.envelope`)
and this node's requests (`server.controller_channel.local_controller`) in this way.
"""

from collections.abc import Callable
from inspect import iscoroutine
from time import monotonic
from typing import Any, Final, cast

import attrs

from barnabas.protocol.apis import API
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message, Struct
from barnabas.security.principals import Principal
from barnabas.server.api.context import AnyContext
from barnabas.server.api.dispatch import Dispatcher

_FRAME_LENGTH_BYTES: Final = 4
_DESCRIBE_QUORUM: Final = 55


@attrs.define
class EmbeddedPeer:
    """The sender of an embedded request, as handlers see it (`context.Peer`)."""

    principal: Principal
    client_host: str
    listener_name: str

    def close(self) -> None:
        """Raise RuntimeError: the connection carries requests of other senders, too."""
        raise RuntimeError("a handler cannot close the connection of an embedded request")

    def on_close(self, callback: Callable[[], object]) -> None:
        """Raise RuntimeError: the sender's own connection is at another node."""
        raise RuntimeError("an embedded request has no connection on this node")


class NotControllerError(KafkaError):
    """Another node is the active controller, and has to answer the request."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")


async def answer(dispatcher: Dispatcher, context: AnyContext) -> bytes:
    """Run the handler of a decoded request; return the response with its header.

    Raises NotControllerError when the response says that this node is not the active controller.
    """
    context.started_at = monotonic()
    try:
        response: Any = context.route.handler(context, context.request)
        if iscoroutine(response):
            response = await response
    except Exception as error:
        response = error
    if is_not_controller(context.api_key, response):
        dispatcher.count(context)
        raise NotControllerError
    return b"".join(dispatcher.encode(context, response))[_FRAME_LENGTH_BYTES:]


def decode_response(api_key: int, version: int, data: bytes) -> Message:
    """Decode an embedded response after its header: correlation id, and an empty tagged section."""
    api = API[api_key]
    start = 4 + api.response_header_version(version)
    return api.response_type.decode(memoryview(data)[start:], version)


def is_not_controller(api_key: int, response: Any) -> bool:
    """True when a response, or an exception in its place, has to be obtained from another node.

    As in Kafka, one item with NOT_CONTROLLER is enough. DescribeQuorum has another code.
    """
    code = ErrorCode.NOT_CONTROLLER
    if isinstance(response, KafkaError):
        return response.code is code
    if api_key == _DESCRIBE_QUORUM:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return _has_error(response, code)


def _has_error(struct: Any, code: ErrorCode) -> bool:
    """True when a message, or a struct within it, has an error code."""
    if not isinstance(struct, Struct):
        return False
    if getattr(struct, "error_code", ErrorCode.NONE) == code:
        return True
    nested = [getattr(struct, name) for name, field in struct.FIELDS.items() if field.struct]
    return any(_has_error(item, code) for value in nested for item in _items(value))


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]
