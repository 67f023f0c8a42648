"""The port to the active controller: it takes and returns the messages of Kafka's protocol."""

from typing import Protocol, TypeVar

from barnabas.protocol.messages_base import Message
from barnabas.server.api.context import AnyContext

ResponseT = TypeVar("ResponseT", bound=Message)


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


def expect(response: Message, response_type: type[ResponseT]) -> ResponseT:
    """Return a response of its type. Raises TypeError when it is of another one."""
    if not isinstance(response, response_type):
        raise TypeError(f"{type(response).__name__} is no {response_type.__name__}")
    return response
