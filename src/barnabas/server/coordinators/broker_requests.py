"""Requests of this node's coordinators to other brokers, over the inter-broker listener."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from barnabas import tasks
from barnabas.protocol.errors import EncodingError, ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.server.open_nursery import OpenNursery
from barnabas.server.peer_security import Secured, plain

if TYPE_CHECKING:
    from barnabas.client.connection_pool import ConnectionPool
    from barnabas.client.failures import Address
    from barnabas.cluster.metadata.image import MetadataImage

ResponseT = TypeVar("ResponseT", bound=Message)


class BrokerRequests:
    """One connection of broker `own_id` to each other broker, for one purpose.

    Nothing is imported and no connection is opened before the first request. The connections to a
    broker that is fenced are closed, and all when this broker is: after a cut of the network they
    may be silent for minutes.
    """

    def __init__(
        self,
        own_id: int,
        purpose: str,
        listener_name: str,
        image: "Callable[[], MetadataImage]",
        secured: Secured = plain,
    ) -> None:
        self._own_id = own_id
        self._client_id = f"broker-{own_id}-{purpose}"
        self._listener_name = listener_name
        self._image = image
        self._secured = secured
        self._nursery = OpenNursery()
        self._pool: ConnectionPool | None = None
        self._waiting: dict[int, dict[tasks.CancelScope, None]] = {}

    async def run(self, task_status: tasks.TaskStatus = tasks.IGNORED) -> None:
        """Serve the connections until cancelled."""
        await self._nursery.serve(task_status)

    def start_soon(self, task: Callable[[int], Awaitable[None]], broker_id: int) -> bool:
        """Start a task that sends requests to a broker; return False after the end."""
        if self._nursery.current is None:
            return False
        self._nursery.current.start_soon(task, broker_id)
        return True

    def is_reachable(self, broker_id: int) -> bool:
        """True when the broker is unfenced and has an inter-broker listener."""
        broker = self._image().brokers.get(broker_id)
        return broker is not None and not broker.fenced and self._listener_name in broker.endpoints

    def follow_metadata(self) -> None:
        """End the requests to brokers that are fenced or gone, and close the connections."""
        is_fenced = not self.is_reachable(self._own_id)
        for broker_id, scopes in tuple(self._waiting.items()):
            if is_fenced or not self.is_reachable(broker_id):
                for scope in list(scopes):
                    scope.cancel()
                if self._pool is not None:
                    self._pool.close_lane(str(broker_id))
                del self._waiting[broker_id]

    async def ask(
        self, broker_id: int, request: Message, response_type: type[ResponseT]
    ) -> ResponseT:
        """Send a request to a broker and return the response.

        Raises KafkaError NETWORK_EXCEPTION when the broker does not answer; it may have carried
        out the request.
        """
        from barnabas.client.failures import ClientError

        waiting = self._waiting.setdefault(broker_id, {})
        with tasks.cancel_scope() as scope:
            waiting[scope] = None
            try:
                address = self._address(broker_id)
                connection = await self._connections().connection(address, str(broker_id))
                return await connection.ask(request, response_type)
            except (ClientError, EncodingError) as error:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
            finally:
                waiting.pop(scope, None)
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker_id} is fenced")

    def _address(self, broker_id: int) -> "Address":
        from barnabas.client.failures import Address

        if not self.is_reachable(broker_id):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker_id} is not available")
        endpoint = self._image().brokers[broker_id].endpoints[self._listener_name]
        return Address(endpoint.host, endpoint.port)

    def _connections(self) -> "ConnectionPool":
        from barnabas.client.client_config import ClientConfig
        from barnabas.client.connection_pool import ConnectionPool
        from barnabas.server.peer_times import CONNECT_S, COORDINATOR_REQUEST_S

        nursery = self._nursery.current
        if nursery is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the node stops")
        if self._pool is None:
            config = ClientConfig(
                (),
                client_id=self._client_id,
                connect_timeout_s=CONNECT_S,
                request_timeout_s=COORDINATOR_REQUEST_S,
            )
            self._pool = ConnectionPool(self._secured(config), nursery)
        return self._pool
