"""The task of one fetcher core: its connection to the leader, its requests and the responses."""

import logging
import math
from collections.abc import Callable
from typing import Final

from barnabas import tasks
from barnabas.client.broker_connection import BrokerConnection, open_connection
from barnabas.client.client_config import ClientConfig
from barnabas.client.failures import Address, ClientError
from barnabas.clock import Clock
from barnabas.cluster.broker.broker_lifecycle import BrokerLifecycle
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.replication.fetcher_assignments import FetcherKey
from barnabas.cluster.replication.fetcher_core import FetcherCore, Request
from barnabas.config.subscriptions import ConfigSubscriptions
from barnabas.protocol.errors import EncodingError, ProtocolError
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsResponse
from barnabas.server.peer_security import Secured, plain
from barnabas.server.peer_times import CONNECT_S, SILENT_S

logger = logging.getLogger(__name__)

_PARKED_S: Final = 0.02
"""When partitions are added, a fetch without a response for this time is given up.

The leader holds it open because there are no records. A new leader's first commit would wait.
"""

_DEFECT_PAUSE_S: Final = 0.5
"""The pause after an exception that is a defect of this program."""

_BUFFER: Final = "replica.socket.receive.buffer.bytes"

_PARTITIONS_MAX: Final = 2000
"""More partitions than this are not requested again over another connection."""

_Versions = tuple[tuple[int, int], ...]

# The versions that brokers use among themselves, by metadata.version (`MetadataVersion`).
FETCH_VERSIONS: Final[_Versions] = ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14), (0, 13))
LIST_OFFSETS_VERSIONS: Final[_Versions] = ((29, 11), (25, 10), (21, 9), (0, 8))


def inter_broker_version(versions: _Versions, metadata_version: int) -> int:
    """Return the version that brokers of a cluster with this metadata.version use."""
    return next(version for level, version in versions if metadata_version >= level)


class LeaderUnknownError(Exception):
    """The metadata has no address for the leader."""


class FetcherTask:
    """Runs one fetcher core over one connection."""

    def __init__(
        self,
        key: FetcherKey,
        core: FetcherCore,
        *,
        settings: ConfigSubscriptions,
        image: Callable[[], MetadataImage],
        broker: BrokerLifecycle,
        clock: Clock,
        secured: Secured = plain,
    ) -> None:
        self.core = core
        self._key = key
        self._settings = settings
        self._image = image
        self._broker = broker
        self._clock = clock
        self._secured = secured
        self._connection: BrokerConnection | None = None
        self._scope = tasks.cancel_scope()
        self._woken = tasks.event()
        self._asking: tasks.CancelScope | None = None
        self._is_failing = False

    def wake(self) -> None:
        """Look for a request again: the core's partitions changed."""
        self._woken.set()
        if (
            self._asking is not None
            and self.core.is_behind
            and len(self.core.partitions) <= _PARTITIONS_MAX
        ):
            self._asking.deadline = min(self._asking.deadline, tasks.current_time() + _PARKED_S)

    def stop(self) -> None:
        """End the task and its connection."""
        self._scope.cancel()

    async def run(self) -> None:
        """Fetch until stopped."""
        with self._scope:
            async with tasks.open_nursery() as readers:
                while True:
                    try:
                        await self._run_once(readers)
                    except Exception as error:
                        logger.exception("fetcher failed broker=%d", self._key.leader)
                        self._failed(error)
                        await tasks.sleep(_DEFECT_PAUSE_S)

    async def _run_once(self, readers: tasks.Nursery) -> None:
        request = self._next_request()
        if request is None:
            await self._wait()
        else:
            await self._exchange(request, readers)

    def _next_request(self) -> Request | None:
        version = inter_broker_version(FETCH_VERSIONS, self._metadata_version)
        epoch = self._broker.identity.epoch
        return self.core.next_request(
            self._clock.monotonic_ms(), version=version, broker_epoch=epoch
        )

    @property
    def _metadata_version(self) -> int:
        return self._image().features.get(METADATA_VERSION, 0)

    async def _wait(self) -> None:
        """Wait for the core's next time, or for a change of its partitions."""
        now_ms = self._clock.monotonic_ms()
        wakeup_ms = self.core.wakeup_ms(now_ms)
        wait_ms = math.inf if wakeup_ms is None else max(0, wakeup_ms - now_ms)
        with tasks.move_on_after(wait_ms / 1000):
            await self._woken.wait()
        self._woken = tasks.event()

    async def _exchange(self, request: Request, readers: tasks.Nursery) -> None:
        response: FetchResponse | ListOffsetsResponse | None = None
        try:
            connection = await self._connected(readers)
            with tasks.cancel_scope() as self._asking:
                response = await self._ask(connection, request)
        except (ClientError, EncodingError, ProtocolError, LeaderUnknownError) as error:
            self._failed(error)
            return
        finally:
            self._asking = None
        if response is None:
            self._disconnect()
            self.core.on_abandoned()
            return
        if self._is_failing:
            self._is_failing = False
            logger.info("fetching again from broker=%d", self._key.leader)
        self.core.on_response(response, self._clock.monotonic_ms(), wall_ms=self._clock.wall_ms())

    async def _ask(
        self, connection: BrokerConnection, request: Request
    ) -> FetchResponse | ListOffsetsResponse:
        level = self._metadata_version
        if isinstance(request, FetchRequest):
            version = inter_broker_version(FETCH_VERSIONS, level)
            return await connection.ask(request, FetchResponse, max_version=version)
        version = inter_broker_version(LIST_OFFSETS_VERSIONS, level)
        return await connection.ask(request, ListOffsetsResponse, max_version=version)

    def _failed(self, error: Exception) -> None:
        if not self._is_failing:  # log the first of several attempts
            logger.warning("cannot fetch from broker=%d error=%s", self._key.leader, error)
        self._is_failing = True
        self._disconnect()
        self.core.on_failure(self._clock.monotonic_ms())

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self, readers: tasks.Nursery) -> BrokerConnection:
        connection = self._connection
        if connection is None or not connection.is_usable:
            self._disconnect()  # its session of SASL ends soon
            address = self._address()
            connection = await open_connection(
                address, self._secured(self._client_config(address)), readers
            )
            self._connection = connection
        return connection

    def _address(self) -> Address:
        """Return the leader's inter-broker address. Raises LeaderUnknownError."""
        leader = self._image().brokers.get(self._key.leader)
        listener = self._settings.current.inter_broker_listener_name
        endpoint = leader.endpoints.get(listener) if leader is not None else None
        if endpoint is None:
            raise LeaderUnknownError(f"broker {self._key.leader} has no listener {listener}")
        return Address(endpoint.host, endpoint.port)

    def _client_config(self, address: Address) -> ClientConfig:
        config = self._settings.current
        timeout_s = config.get_int("replica.socket.timeout.ms") / 1000
        wait_s = config.get_int("replica.fetch.wait.max.ms") / 1000
        return ClientConfig(
            (address,),
            client_id=f"broker-{config.node_id}-fetcher-{self._key.number}",
            request_timeout_s=min(timeout_s, wait_s + SILENT_S),
            connect_timeout_s=min(timeout_s, CONNECT_S),
            # The system's own choice grows with the traffic, and takes less CPU than the default.
            receive_buffer_bytes=config.get_int(_BUFFER) if _BUFFER in config.static else -1,
        )
