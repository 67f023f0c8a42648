"""The backend of the REST application: one writer among the instances, readers everywhere."""

import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress

import trio

from barnabas.client import ClientError, DeliveryError, KafkaClient
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.registry_errors import RegistryError, schema_too_large
from barnabas.registry.core.schema_requests import Decision
from barnabas.registry.core.topic_records import NoopKey, RecordError, TopicRecord
from barnabas.registry.rest.registry_app import ForwardAnswer, ForwardRequest
from barnabas.registry.service.election_protocol import InstanceAddress
from barnabas.registry.service.leader_forwarding import (
    ForwardError,
    LeaderAnswer,
    LeaderConnections,
)
from barnabas.registry.service.leadership import Leadership
from barnabas.registry.service.schemas_topic import SchemasTopic

logger = logging.getLogger(__name__)

# How long a write waits for a leader, an election included.
_LEADER_TIMEOUT_S = 15.0
_CATCH_UP_TIMEOUT_S = 5.0
_REPLAY_TIMEOUT_S = 30.0
"""How long a write waits for records before it; a reader that hangs must not block all writes."""
_RETRY_S = 0.2

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

# How often a decision is repeated because another instance wrote at the same time.
_ATTEMPTS_MAX = 10


class _NotLeaderError(Exception):
    """Another instance leads now."""


class RegistryService:
    """Serves one topic as an instance among others."""

    def __init__(
        self,
        client: KafkaClient,
        topic: SchemasTopic,
        core: RegistryCore,
        leadership: Leadership,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.core = core
        self.clusters: Mapping[str, str] = {}
        self.not_ready: str | None = "The registry reads its topic"
        self._client = client
        self._topic = topic
        self._leadership = leadership
        self._tls = tls
        self._writing = trio.Lock()
        self._has_taken_over = False
        self._connections: LeaderConnections | None = None

    @property
    def is_leader(self) -> bool:
        """True when this instance appends records."""
        return self._leadership.is_leader

    def ready(self, clusters: Mapping[str, str]) -> None:
        """Answer requests from now on: the topic is read to its end."""
        self.clusters = clusters
        self.not_ready = None

    async def close(self) -> None:
        """Close the connections to the leader, also when cancelled."""
        with trio.CancelScope(shield=True):
            if self._connections is not None:
                await self._connections.close()

    async def catch_up(self) -> bool:
        """Replay up to the end of the log; True when records were replayed meanwhile."""
        before = self._topic.position
        with trio.move_on_after(_CATCH_UP_TIMEOUT_S), suppress(KafkaError, ClientError):
            await self._topic.wait_replayed(await self._topic.end())
        return self._topic.position > before

    async def submit(
        self, decide: Callable[[], Decision], request: ForwardRequest, *, was_forwarded: bool
    ) -> Decision | ForwardAnswer:
        """Write as the leader, or send the request to the leader, once.

        Raises RegistryError when the request is refused, or cannot be done.
        """
        deadline = trio.current_time() + _LEADER_TIMEOUT_S
        while trio.current_time() < deadline:
            leader = await self._leader(deadline)
            if leader is None:
                break
            try:
                if self.is_leader:
                    return await self._write(decide)
                if was_forwarded:
                    break
                answer = await self._forward(leader, request)
            except _NotLeaderError:
                continue
            if answer is not None:
                return answer
            with trio.move_on_after(_RETRY_S):
                await self._leadership.changed()
        raise RegistryError(500, 50004, "There is no leader")

    async def _leader(self, deadline: float) -> InstanceAddress | None:
        with trio.move_on_at(deadline):
            return await self._leadership.known()
        return None

    async def _write(self, decide: Callable[[], Decision]) -> Decision:
        try:
            async with self._writing:
                return await self._write_alone(decide)
        except DeliveryError as error:
            logger.warning("write timed out error=%s", error)
            raise RegistryError(500, 50002, f"Writing to the topic timed out: {error}") from None
        except (KafkaError, ClientError, RecordError, trio.TooSlowError) as error:
            logger.warning("write failed error=%r", error)
            if isinstance(error, KafkaError) and error.code in _TOO_LARGE:
                raise schema_too_large(
                    "The schema is larger than the topic takes: see max.message.bytes of the topic"
                ) from None
            raise RegistryError(500, 50001, f"Writing to the topic failed: {error!r}") from None

    async def _write_alone(self, decide: Callable[[], Decision]) -> Decision:
        """Decide and append; again when another instance took an id or version meanwhile."""
        for _ in range(_ATTEMPTS_MAX):
            if not self.is_leader:
                self._has_taken_over = False
                raise _NotLeaderError
            if not self._has_taken_over:
                await self._topic.append([TopicRecord(NoopKey(), None)])
                self._has_taken_over = True
            with trio.fail_after(_REPLAY_TIMEOUT_S):
                await self._topic.wait_replayed(await self._topic.end())
            await self._repair()
            decision = decide()
            if not decision.records:
                return decision
            appended = await self._topic.append(decision.records)
            counts = self._topic.counts(appended)
            if counts and not self.core.has_applied(decision.records):
                raise RegistryError(500, 50001, "The topic does not hold what was written")
            await self._repair()
            if counts:
                return decision
        raise RegistryError(500, 50001, "Other instances write at the same time")

    async def _repair(self) -> None:
        """Write the records without which compaction would change the state."""
        repairs = self.core.take_repairs()
        if repairs:
            logger.warning("repairing topic records=%d", len(repairs))
            await self._topic.append(repairs)

    async def _ask_while_leading(
        self, connections: LeaderConnections, request: ForwardRequest
    ) -> LeaderAnswer | ForwardError:
        """Return the answer of the leader, or why there is none: another one may lead now."""
        headers = {**request.headers, "x-forward": "true"}
        url = connections.address.url
        outcome: LeaderAnswer | ForwardError = ForwardError(
            f"{url} did not answer before another instance became the leader", is_sent=True
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_with_leader, connections.address, nursery.cancel_scope)
            try:
                outcome = await connections.ask(
                    request.method, request.target, headers, request.body
                )
            except ForwardError as error:
                outcome = error
            nursery.cancel_scope.cancel()
        return outcome

    async def _end_with_leader(self, leader: InstanceAddress, scope: trio.CancelScope) -> None:
        """Cancel the scope when another instance leads; while there is no leader, it may return."""
        while self._leadership.leader in (None, leader):
            await self._leadership.changed()
        scope.cancel()

    async def _forward(
        self, leader: InstanceAddress, request: ForwardRequest
    ) -> ForwardAnswer | None:
        """Return the leader's answer; None when it did not get the request, or has stopped leading.

        Raises RegistryError when it is unknown what the leader did.
        """
        if self._connections is None or self._connections.address != leader:
            if self._connections is not None:
                await self._connections.close()
            self._connections = LeaderConnections(leader, self._tls)
        answer = await self._ask_while_leading(self._connections, request)
        if isinstance(answer, ForwardError):
            is_deposed = self._leadership.leader not in (None, leader)
            if not answer.is_sent or (is_deposed and request.is_repeatable):
                return None
            raise RegistryError(500, 50003, f"Forwarding to the leader failed: {answer}")
        if answer.status == 500 and b'"error_code":50004' in answer.body:
            return None
        return ForwardAnswer(answer.status, answer.body)
