"""Requests of this node's coordinators to other brokers, over the inter-broker listener."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas import tasks
from barnabas.protocol.errors import EncodingError, ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.server.open_nursery import OpenNursery

if TYPE_CHECKING:
    from barnabas.client.connection_pool import ConnectionPool
    from barnabas.client.failures import Address
    from barnabas.cluster.metadata.image import MetadataImage

ResponseT = TypeVar("ResponseT", bound=Message)

_CONNECT_S: Final = 2.0


class BrokerRequests:
    """One connection to each broker for one purpose, which `client_id` names.

    Nothing is imported and no connection is opened before the first request.
    """

    def __init__(
        self, client_id: str, listener_name: str, image: "Callable[[], MetadataImage]"
    ) -> None:
        self._client_id = client_id
        self._listener_name = listener_name
        self._image = image
        self._nursery = OpenNursery()
        self._pool: ConnectionPool | None = None
        self._waiting: dict[int, set[tasks.CancelScope]] = {}

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
        """End the requests to brokers that are fenced or gone."""
        for broker_id, scopes in self._waiting.items():
            if not self.is_reachable(broker_id):
                for scope in scopes:
                    scope.cancel()

    async def ask(
        self, broker_id: int, request: Message, response_type: type[ResponseT]
    ) -> ResponseT:
        """Send a request to a broker and return the response.

        Raises KafkaError NETWORK_EXCEPTION when the broker does not answer; it may have carried
        out the request.
        """
        from barnabas.client.failures import ClientError

        waiting = self._waiting.setdefault(broker_id, set())
        with tasks.cancel_scope() as scope:
            waiting.add(scope)
            try:
                connection = await self._connections().connection(self._address(broker_id))
                return await connection.ask(request, response_type)
            except (ClientError, EncodingError) as error:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
            finally:
                waiting.discard(scope)
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

        nursery = self._nursery.current
        if nursery is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the node stops")
        if self._pool is None:
            self._pool = ConnectionPool(
                ClientConfig((), client_id=self._client_id, connect_timeout_s=_CONNECT_S), nursery
            )
        return self._pool
