"""Requests to a controller of another node, over connections of this node.

Each kind of request has its own connection, as in Kafka: a controller answers the requests of
a connection one after the other, and a heartbeat must not wait until a topic is created. Requests
of clients travel in an Envelope.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from barnabas import tasks
from barnabas.client.client_config import ClientConfig
from barnabas.client.connection_pool import ConnectionPool
from barnabas.client.failures import Address, ClientError, UnsupportedVersionError
from barnabas.protocol.errors import EncodingError, ErrorCode, KafkaError
from barnabas.protocol.messages.envelope import EnvelopeResponse
from barnabas.protocol.messages_base import Message
from barnabas.server.api.context import AnyContext
from barnabas.server.api.embedded_requests import is_not_controller
from barnabas.server.api.envelopes import unwrap, wrap
from barnabas.server.controller_channel.controller_channel import expect

ResponseT = TypeVar("ResponseT", bound=Message)

_FORWARDING: Final = "forwarding"
_LANES: Final = {
    56: "alter-partition",
    62: "heartbeat",  # BrokerRegistration
    63: "heartbeat",
    70: "registration",
    73: "directory-assignments",
}
"""The connections for the broker's own requests, by api key; all others share one."""

_RECONNECT_BACKOFF_S: Final = 0.05


class RemoteController:
    """The connections to one controller; their reader tasks run in `nursery`.

    Requests raise KafkaError as `ControllerChannel.send` does, and in addition NOT_CONTROLLER, or
    NETWORK_EXCEPTION when a connection fails, so that the outcome may be unknown.
    """

    def __init__(
        self, address: Address, client_id: str, nursery: tasks.Nursery, *, request_timeout_s: float
    ) -> None:
        self.address = address
        self.versions: Mapping[int, tuple[int, int]] | None = None
        """The versions that the controller serves, by api key; None before a connection."""
        config = ClientConfig(
            (address,),
            client_id=client_id,
            request_timeout_s=request_timeout_s,
            reconnect_backoff_s=_RECONNECT_BACKOFF_S,
            reconnect_backoff_max_s=_RECONNECT_BACKOFF_S,
        )
        self._pool = ConnectionPool(config, nursery)
        self._waiting: dict[tasks.CancelScope, None] = {}

    async def send(
        self, request: Message, response_type: type[ResponseT], *, max_version: int | None = None
    ) -> ResponseT:
        """Send a request of this node."""
        lane = _LANES.get(request.API_KEY, _FORWARDING)
        response = await self._ask(request, response_type, lane, max_version)
        if is_not_controller(request.API_KEY, response):
            self._pool.close_lane(lane)
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"{self.address} is not the controller")
        return response

    async def forward(
        self, client: AnyContext, request: Message, response_type: type[ResponseT]
    ) -> ResponseT:
        """Send a client's request in an Envelope, in the client's version."""
        answer = await self._ask(wrap(client, request), EnvelopeResponse, _FORWARDING)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            self._pool.close_lane(_FORWARDING)
        return expect(unwrap(client, answer), response_type)

    def close(self) -> None:
        """Close the connections; requests without a response raise NETWORK_EXCEPTION."""
        for scope in tuple(self._waiting):
            scope.cancel()
        self._pool.close()

    async def _ask(
        self,
        request: Message,
        response_type: type[ResponseT],
        lane: str,
        max_version: int | None = None,
    ) -> ResponseT:
        with tasks.cancel_scope() as scope:
            self._waiting[scope] = None
            try:
                connection = await self._pool.connection(self.address, lane)
                self.versions = connection.versions.ranges
                return await connection.ask(request, response_type, max_version=max_version)
            except (UnsupportedVersionError, EncodingError) as error:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
            except ClientError as error:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
            finally:
                self._waiting.pop(scope, None)
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address} is no longer used")
