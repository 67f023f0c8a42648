"""Requests to a controller of another node, over connections of this node.

Each kind of request has its own connection, as in Kafka: a controller answers the requests of
a connection one after the other, and a heartbeat must not wait until a topic is created. Requests
of clients travel in an Envelope.
"""

import logging
from collections.abc import Mapping
from typing import Final, TypeVar

from barnabas import tasks
from barnabas.client.broker_connection import BrokerConnection
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
from barnabas.server.peer_security import Secured, plain
from barnabas.server.peer_times import CONNECT_S, SILENT_S

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=Message)

_FORWARDING: Final = "forwarding"
_HEARTBEAT: Final = "heartbeat"
_LANES: Final = {
    56: "alter-partition",
    62: _HEARTBEAT,  # BrokerRegistration
    63: _HEARTBEAT,
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
        self,
        address: Address,
        client_id: str,
        nursery: tasks.Nursery,
        *,
        request_timeout_s: float,
        secured: Secured = plain,
    ) -> None:
        self.address = address
        self.versions: Mapping[int, tuple[int, int]] | None = None
        """The versions that the controller serves, by api key; None before a connection."""
        config = ClientConfig(
            (address,),
            client_id=client_id,
            request_timeout_s=request_timeout_s,
            connect_timeout_s=min(CONNECT_S, request_timeout_s),
            reconnect_backoff_s=_RECONNECT_BACKOFF_S,
            reconnect_backoff_max_s=_RECONNECT_BACKOFF_S,
        )
        self.silences = 0
        """The number of times that heartbeats had no answer, and connections were opened again."""
        self._unanswered_since: float | None = None
        self._heartbeats_over: BrokerConnection | None = None
        self._connected_at = 0.0
        self._pool = ConnectionPool(secured(config), nursery)
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
        if lane == _HEARTBEAT:
            self._leave_silent_connections()
        with tasks.cancel_scope() as scope:
            self._waiting[scope] = None
            try:
                connection = await self._pool.connection(self.address, lane)
                self.versions = connection.versions.ranges
                if lane == _HEARTBEAT and connection is not self._heartbeats_over:
                    self._heartbeats_over, self._connected_at = connection, tasks.current_time()
                response = await connection.ask(request, response_type, max_version=max_version)
                if lane == _HEARTBEAT:
                    self._unanswered_since = None
                return response
            except (UnsupportedVersionError, EncodingError) as error:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
            except ClientError as error:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
            finally:
                self._waiting.pop(scope, None)
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address} is no longer used")

    def _leave_silent_connections(self) -> None:
        """Open new connections when no heartbeat was answered for some seconds.

        The sender gives up each heartbeat after a shorter time. Forwarded requests keep the old
        connection: repeated, a CreateTopics may find its own topic.
        """
        now = tasks.current_time()
        if self._unanswered_since is None:
            self._unanswered_since = now
        if now - self._unanswered_since < SILENT_S:
            return
        self._unanswered_since = now
        silent, self._heartbeats_over = self._heartbeats_over, None
        if silent is None:
            return
        self.silences += 1
        logger.warning(
            "the controller does not answer, connecting again address=%s silent_s=%g age_s=%.1f",
            self.address,
            SILENT_S,
            now - self._connected_at,
        )
        for lane in {*_LANES.values()}:
            self._pool.close_lane(lane)
        self._pool.retire_lane(_FORWARDING)
