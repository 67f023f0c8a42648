"""The context of a request, and responses that are resolved later."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from barnabas.security.principals import Principal
    from barnabas.server.api.dispatch import Route
    from barnabas.server.api.request_timer import RequestTimer


class Peer(Protocol):
    """The connection as handlers see it."""

    principal: "Principal"
    client_host: str
    listener_name: str

    def close(self) -> None:
        """Close the connection once earlier responses are sent; this request gets none."""
        ...

    def on_close(self, callback: Callable[[], object]) -> None:
        """Call back once, when the connection has ended."""
        ...


ServicesT = TypeVar("ServicesT")


class RequestContext(Generic[ServicesT]):
    """One request in progress: its header, its connection, and what its handler may use.

    `services` are the parts of the node that this family of handlers takes, one class for each
    family. `started_at` is when the handler began, in monotonic seconds. `client_id` may be None,
    as clients may send null. `size` is the bytes of the request. `throttle_ms` is how long a quota
    holds the client back: the response states it, and the connection is read no further for that
    long. `timer` counts the time that the request takes, where the client has a quota of it.
    """

    __slots__ = (
        "api_key",
        "client_id",
        "connection",
        "correlation_id",
        "request",
        "route",
        "services",
        "size",
        "started_at",
        "throttle_ms",
        "timer",
        "version",
    )

    def __init__(
        self,
        connection: Peer,
        route: "Route",
        correlation_id: int,
        client_id: str | None,
        request: Any,
        size: int = 0,
    ) -> None:
        self.services: ServicesT = route.services
        self.connection = connection
        self.route = route
        self.api_key = route.api_key
        self.version = route.version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request
        self.size = size
        self.started_at = 0.0
        self.throttle_ms = 0
        self.timer: RequestTimer | None = None


AnyContext: TypeAlias = RequestContext[Any]


class Deferred:
    """A response that is resolved later, while more Produce requests of the connection may start.

    The handler returns it; the part that completes the request calls `resolve` once, from the loop.
    The response is dropped when the peer has closed.
    """

    __slots__ = ("_callback", "response")

    def __init__(self) -> None:
        self.response: Any = None
        self._callback: Callable[[], None] | None = None

    @property
    def resolved(self) -> bool:
        """True when the response is available."""
        return self.response is not None

    def resolve(self, response: Any) -> None:
        """Set the response message, or the exception of the failed request."""
        if self.response is not None:
            raise RuntimeError("a deferred response was resolved twice")
        self.response = response
        if self._callback is not None:
            self._callback()

    def when_resolved(self, callback: Callable[[], None] | None) -> None:
        """Set the transport's callback for the resolved response."""
        self._callback = callback
