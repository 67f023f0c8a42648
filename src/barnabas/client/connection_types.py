"""A connection as its users see it, so that a simulation can replace the sockets."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

from barnabas import tasks
from barnabas.client.client_config import ClientConfig
from barnabas.client.core.api_negotiation import ApiTable
from barnabas.client.failures import Address
from barnabas.protocol.messages_base import Message

R = TypeVar("R", bound=Message)


class Connection(Protocol):
    """An open connection to one broker (`broker_connection.BrokerConnection`)."""

    versions: ApiTable
    """The versions that the broker serves."""

    @property
    def is_usable(self) -> bool:
        """True when new requests may be sent."""
        ...

    @property
    def is_idle(self) -> bool:
        """True when no request waits for a response."""
        ...

    async def ask(
        self,
        request: Message,
        answer: type[R],
        *,
        timeout_s: float | None = None,
        max_version: int | None = None,
    ) -> R:
        """Send a request and return its response, of the type `answer`.

        Raises ConnectionFailureError, and UnsupportedVersionError or EncodingError when the
        broker's versions cannot carry the request.
        """
        ...

    def close(self) -> None:
        """Close the connection; requests without a response fail."""
        ...


Connect: TypeAlias = Callable[[Address, ClientConfig, tasks.Nursery], Awaitable[Connection]]
"""Opens a connection whose reader task runs in the nursery.

Raises ConnectionFailureError or AuthenticationError.
"""
