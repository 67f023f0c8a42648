"""A client of one cluster: finds the right broker, asks it, and asks again where that helps.

`open_client` gives a `KafkaClient`; producing, reading, administration and groups are built on its
four ways to ask: any broker, the controller, a partition's leader, a coordinator.
"""

import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.client_config import ClientConfig
from barnabas.client.connection_pool import ConnectionPool
from barnabas.client.core.metadata_cache import (
    LeaderHint,
    MetadataCache,
    PartitionLeader,
    metadata_request,
)
from barnabas.client.core.retry_backoff import Backoff
from barnabas.client.failures import (
    Address,
    CallTimeoutError,
    ClientError,
    ConnectionFailureError,
    raise_for,
)
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import ZERO_UUID

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R", bound=Message)

_FIND_COORDINATOR_BY_KEY: Final = 3
"""The newest version that asks for one key; later ones ask for several."""

GROUP: Final = 0
TRANSACTION: Final = 1
"""What a coordinator is of: a group, or a transactional id."""
COORDINATOR_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors of a broker that is not, or not yet, the coordinator."""

_LOGGED_FAILURES: Final = (4, 16)
_LOGGED_EVERY: Final = 64


class KafkaClient:
    """Connections to one cluster and its metadata. Made by `open_client`."""

    def __init__(self, config: ClientConfig, nursery: trio.Nursery) -> None:
        self.config = config
        self.metadata = MetadataCache()
        self.nursery = nursery
        """Where the client's own tasks run; they end with the client."""
        self.pool = ConnectionPool(config, nursery)
        self._retry_backoff = Backoff(config.retry_backoff_s, config.retry_backoff_max_s)
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._refreshing = trio.Lock()
        self._refreshes = 0

    async def ask_any(
        self,
        request: Message,
        answer: type[R],
        *,
        timeout_s: float | None = None,
        max_version: int | None = None,
    ) -> R:
        """Return the response of any broker; each known one is tried, then the bootstrap servers.

        Raises the last ConnectionFailureError when none of them answers.
        """
        last: ConnectionFailureError | None = None
        for address in self._candidates():
            try:
                connection = await self.pool.connection(address)
                return await connection.ask(
                    request, answer, timeout_s=timeout_s, max_version=max_version
                )
            except ConnectionFailureError as error:
                if not error.retriable:
                    raise
                last = error
        if last is None:
            raise ValueError("no bootstrap servers")
        raise last

    def _candidates(self) -> list[Address]:
        """Return the addresses to try: those that answered last first."""
        known = list(dict.fromkeys((*self.metadata.brokers.values(), *self.config.bootstrap)))
        random.shuffle(known)
        return sorted(known, key=self.pool.failures)

    async def ask_controller(self, request: Message, answer: type[R]) -> R:
        """Return the response of the broker that Metadata names as controller.

        After a failure of that broker, the next call goes to any broker, which forwards it.
        """
        if not self.metadata.brokers:
            await self.refresh_metadata()
        address = self.metadata.brokers.get(self.metadata.controller_id)
        if address is None:
            return await self.ask_any(request, answer)
        try:
            connection = await self.pool.connection(address)
            return await connection.ask(request, answer)
        except ConnectionFailureError:
            self.metadata.controller_id = -1
            raise

    async def leader(self, topic: str, partition: int) -> PartitionLeader:
        """Return a partition's leader, after one refresh of the metadata if it is unknown.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION or LEADER_NOT_AVAILABLE, or what the broker
        says of the topic.
        """
        leader = self.metadata.leader(topic, partition)
        if leader is not None:
            return leader
        await self.refresh_metadata((topic,))
        leader = self.metadata.leader(topic, partition)
        if leader is not None:
            return leader
        entry = self.metadata.topic(topic)
        if entry is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic}")
        raise_for(entry.error, f"topic {topic}")
        if partition >= entry.partition_count:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")

    async def ask_leader(
        self,
        topic: str,
        partition: int,
        build: Callable[[PartitionLeader], Message],
        answer: type[R],
        *,
        lane: str = "",
        timeout_s: float | None = None,
        max_named_version: int | None = None,
    ) -> R:
        """Return the response of a partition's leader; `build` makes the request for it.

        `max_named_version` is the newest version that names topics, for brokers that gave no topic
        id. A leader that fails is forgotten, so that the next attempt asks who leads. Raises
        ConnectionFailureError, and KafkaError when the leader is unknown.
        """
        leader = await self.leader(topic, partition)
        address = self.metadata.brokers.get(leader.node_id)
        if address is None:
            self.metadata.forget_leader(topic, partition)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
        cap = max_named_version if leader.topic_id == ZERO_UUID else None
        try:
            connection = await self.pool.connection(address, lane)
            return await connection.ask(build(leader), answer, timeout_s=timeout_s, max_version=cap)
        except ConnectionFailureError:
            self.metadata.forget_leader(topic, partition)
            raise

    def check_partition(
        self, number: int, topic: str, partition: int, hint: LeaderHint | None = None
    ) -> None:
        """Raise KafkaError for a partition's error code.

        After a retriable error the leader is the one that the response hints at, or unknown.
        """
        code = error_code(number)
        if code is not ErrorCode.NONE:
            self.leader_failed(code, topic, partition, hint)
            raise KafkaError(code, f"{topic}-{partition}")

    def leader_failed(
        self, code: ErrorCode, topic: str, partition: int, hint: LeaderHint | None = None
    ) -> None:
        """Note an error of a partition's leader: after a retriable one it is looked up again."""
        learned = hint is not None and self.metadata.learn_leader(topic, partition, hint)
        if code.retriable and not learned:
            self.metadata.forget_leader(topic, partition)

    async def ask_coordinator(
        self,
        key: str,
        lane: str,
        request: Message,
        answer: type[R],
        check: Callable[[R], T],
        *,
        kind: int = GROUP,
        timeout_s: float | None = None,
        max_version: int | None = None,
    ) -> T:
        """Return what `check` makes of a coordinator's response; it raises KafkaError for errors.

        After an error that another coordinator may not have, it is looked up again for the next
        request. Raises KafkaError, ClientError.
        """
        connection = await self.connection_to_coordinator(key, lane, kind)
        try:
            return check(
                await connection.ask(request, answer, timeout_s=timeout_s, max_version=max_version)
            )
        except (KafkaError, ClientError) as error:
            if isinstance(error, ClientError) or error.code in COORDINATOR_ERRORS:
                self.forget_coordinator(key, kind)
            raise

    async def connection_to_coordinator(
        self, key: str, lane: str, kind: int = GROUP
    ) -> BrokerConnection:
        """Return an open connection to the coordinator of a group or a transactional id.

        Raises KafkaError.
        """
        address = self._coordinators.get((kind, key))
        if address is None:
            address = self._coordinators[kind, key] = await self._find_coordinator(key, kind)
        try:
            return await self.pool.connection(address, lane)
        except ConnectionFailureError:
            self.forget_coordinator(key, kind)
            raise

    def forget_coordinator(self, key: str, kind: int = GROUP) -> None:
        """Have the coordinator looked up again before the next request to it."""
        self._coordinators.pop((kind, key), None)

    async def _find_coordinator(self, key: str, kind: int) -> Address:
        response = await self.ask_any(
            FindCoordinatorRequest(key=key, key_type=kind),
            FindCoordinatorResponse,
            max_version=_FIND_COORDINATOR_BY_KEY,
        )
        raise_for(response.error_code, response.error_message, about=key)
        return Address(response.host, response.port)

    async def refresh_metadata(self, topics: Iterable[str] = ()) -> None:
        """Update brokers, the given topics and the known ones; concurrent calls share one request.

        Raises ConnectionFailureError when no broker answers.
        """
        wanted = set(topics)
        seen = self._refreshes
        async with self._refreshing:
            if seen != self._refreshes and wanted <= set(self.metadata.known_topics()):
                return
            names = sorted(wanted.union(self.metadata.known_topics()))
            response = await self.ask_any(metadata_request(names), MetadataResponse)
            self.metadata.update(response)
            self._refreshes += 1
            self.pool.close_except({*self.metadata.brokers.values(), *self.config.bootstrap})

    async def retry(
        self, what: str, attempt: Callable[[], Awaitable[T]], *, timeout_s: float | None = None
    ) -> T:
        """Run `attempt` until it succeeds, with backoff after each retriable failure.

        Raises CallTimeoutError when the time is over, and failures that are not retriable at once.
        """
        limit = self.config.api_timeout_s if timeout_s is None else timeout_s
        last: Exception | None = None
        failures = 0
        with trio.move_on_after(limit):
            while True:
                try:
                    return await attempt()
                except (KafkaError, ConnectionFailureError) as error:
                    if not is_retriable(error):
                        raise
                    last = error
                failures += 1
                await self.back_off(what, failures, last)
        raise CallTimeoutError(what, limit, last)

    async def back_off(self, what: str, failures: int, error: Exception | None) -> None:
        """Sleep as `retry.backoff.ms` says after a number of failures in a row."""
        if failures in _LOGGED_FAILURES or failures % _LOGGED_EVERY == 0:
            logger.warning("%s failed, retrying failures=%d error=%s", what, failures, error)
        await trio.sleep(self._retry_backoff.delay_s(failures, random.random()))


def is_retriable(error: KafkaError | ConnectionFailureError) -> bool:
    """True when the same call may succeed later."""
    return error.retriable if isinstance(error, ConnectionFailureError) else error.code.retriable


@asynccontextmanager
async def open_client(
    config: ClientConfig | Mapping[str, str],
) -> AsyncGenerator[KafkaClient, None]:
    """Yield a client, from settings or from properties; its connections end with the block.

    The first call connects, not the opening. Raises ConfigError for bad properties.
    """
    settings = config if isinstance(config, ClientConfig) else ClientConfig.from_properties(config)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        client = KafkaClient(settings, nursery)
        try:
            yield client
        except Exception as error:  # raised again below: a nursery would wrap it in a group
            failure = error
        finally:
            client.pool.close()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
