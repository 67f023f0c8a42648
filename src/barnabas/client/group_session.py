"""Membership in a classic group: joins, heartbeats and leaves in a task of the client.

    async with join_group(client, settings, protocol, on_event) as session:
        await session.wait_assigned()

`on_event` is called in the event loop at once, before the member does anything else: a leader that
hears `Revoked` stops leading before it answers the group.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NoReturn

import trio

from barnabas.client.core.group_membership import (
    Assigned,
    GroupEvent,
    GroupMember,
    GroupProtocol,
    GroupRequest,
    GroupResponse,
    GroupSettings,
    MemberState,
    Revoked,
)
from barnabas.client.failures import ClientError, ConnectionFailureError, raise_for
from barnabas.client.kafka_client import KafkaClient, is_retriable
from barnabas.protocol.errors import KafkaError, error_code
from barnabas.protocol.messages.heartbeat import HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

__all__ = [
    "Assigned",
    "GroupEvent",
    "GroupProtocol",
    "GroupSession",
    "GroupSettings",
    "Revoked",
    "join_group",
]

_JOIN_GRACE_S: Final = 5.0
"""How much longer than the rebalance timeout a join may take, as in Java's client."""

_LEAVE_TIMEOUT_S: Final = 2.0
_REMOVAL_LANE: Final = "group removals"
_LEAVE_BY_MEMBER_ID: Final = 2
"""The newest version that names one member by its id."""
_REQUEST_TIMEOUTS_OF_A_SESSION: Final = 3
"""The number of heartbeats that may stay without a response before the session ends."""


class GroupSession:
    """A member of a group while its block lasts."""

    def __init__(
        self,
        client: KafkaClient,
        settings: GroupSettings,
        protocol: GroupProtocol,
        on_event: Callable[[GroupEvent], None],
    ) -> None:
        self.current: Assigned | None = None
        """The member's part, None during a rebalance."""
        self._client = client
        self._settings = settings
        self._member = GroupMember(settings, protocol)
        self._on_event = on_event
        self._changed = trio.Event()
        self._wake = trio.Event()
        self._failure: Exception | None = None
        self._lane = f"group {settings.group_id} {id(self)}"

    async def wait_assigned(self) -> Assigned:
        """Return the member's part, once it has one. Raises what ended the membership."""
        while self.current is None:
            if self._failure is not None:
                raise self._failure
            await self._changed.wait()
        return self.current

    async def wait_ended(self) -> NoReturn:
        """Wait for the end of the membership. Raises what ended it."""
        while self._failure is None:
            await self._changed.wait()
        raise self._failure

    async def remove(self, members: Sequence[LeaveGroupRequest.MemberIdentity]) -> None:
        """Remove members whose processes have ended; the others rebalance without them at once.

        A member that is not in the group is ignored. Raises KafkaError or ClientError.
        """
        group = self._settings.group_id
        connection = await self._client.connection_to_coordinator(group, _REMOVAL_LANE)
        request = LeaveGroupRequest(group_id=group, members=list(members))
        response = await connection.ask(
            request, LeaveGroupResponse, timeout_s=self._request_timeout_s
        )
        raise_for(response.error_code)

    def request_rejoin(self) -> None:
        """Have the group rebalance, as when this member's metadata changed."""
        self._member.request_rejoin()
        self._wake.set()

    async def run(self) -> None:
        """Stay in the group until cancelled, or until the group refuses the member for good."""
        failures = 0
        try:
            while True:
                step = self._member.poll(trio.current_time())
                self._pass_on(step.events)
                if step.request is None:
                    await self._sleep_until(step.wake_at)
                    continue
                error = await self._exchange(step.request)
                failures = failures + 1 if self._member.retries_later else 0
                if self._member.retries_later:
                    what = f"membership in group {self._settings.group_id}"
                    with trio.move_on_at(self._member.session_ends):
                        await self._client.back_off(what, failures, error)
        except (KafkaError, ClientError) as error:
            self._failure = error
            self._pass_on([Revoked(is_lost=True)] if self.current is not None else [])
            self._notify()

    async def _sleep_until(self, wake_at: float) -> None:
        self._wake = trio.Event()
        with trio.move_on_at(wake_at):
            await self._wake.wait()

    async def _exchange(self, request: GroupRequest) -> Exception | None:
        """Send a request and take its outcome in; a failure that may pass is returned.

        A request never outlasts the session, so that a lost member knows it in time.
        """
        member = self._member
        error: Exception | None = None
        try:
            with trio.move_on_at(member.session_ends):
                response = await self._ask(request)
                if response.error_code:
                    error = KafkaError(error_code(response.error_code))
                self._pass_on(member.receive(response))
        except (KafkaError, ConnectionFailureError) as failure:
            if member.state is MemberState.LEFT or not is_retriable(failure):
                raise
            error = failure
            self._pass_on(member.request_failed())
        if member.coordinator_moved:
            member.coordinator_moved = False
            self._client.forget_coordinator(self._settings.group_id)
        return error

    async def _ask(self, request: GroupRequest) -> GroupResponse:
        group, settings = self._settings.group_id, self._settings
        connection = await self._client.connection_to_coordinator(group, self._lane)
        if isinstance(request, JoinGroupRequest):
            limit_s = settings.rebalance_timeout_s + _JOIN_GRACE_S
            return await connection.ask(request, JoinGroupResponse, timeout_s=limit_s)
        if isinstance(request, SyncGroupRequest):
            # The coordinator waits as long for a leader that does not send the assignment.
            limit_s = settings.rebalance_timeout_s + _JOIN_GRACE_S
            return await connection.ask(request, SyncGroupResponse, timeout_s=limit_s)
        return await connection.ask(request, HeartbeatResponse, timeout_s=self._request_timeout_s)

    @property
    def _request_timeout_s(self) -> float:
        return self._settings.session_timeout_s / _REQUEST_TIMEOUTS_OF_A_SESSION

    def _pass_on(self, events: list[GroupEvent]) -> None:
        for event in events:
            self.current = event if isinstance(event, Assigned) else None
            self._on_event(event)
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def leave(self) -> None:
        """Send LeaveGroup, so that other members need not wait for this one."""
        request = self._member.leave_request()
        self._pass_on([Revoked(is_lost=False)] if self.current is not None else [])
        if request is not None:
            with trio.move_on_after(_LEAVE_TIMEOUT_S):
                try:
                    connection = await self._client.connection_to_coordinator(
                        self._settings.group_id, self._lane
                    )
                    limit = _LEAVE_BY_MEMBER_ID if request.member_id else None
                    await connection.ask(request, LeaveGroupResponse, max_version=limit)
                    logger.info("left group=%s", request.group_id)
                except (KafkaError, ClientError) as error:
                    logger.info("cannot leave group=%s error=%s", request.group_id, error)
        self._client.pool.close_lane(self._lane)


@asynccontextmanager
async def join_group(
    client: KafkaClient,
    settings: GroupSettings,
    protocol: GroupProtocol,
    on_event: Callable[[GroupEvent], None] = lambda event: None,
) -> AsyncGenerator[GroupSession, None]:
    """Be a member of a group while the block lasts; the member leaves at its end."""
    session = GroupSession(client, settings, protocol, on_event)
    failure: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run)
            try:
                yield session
            except Exception as error:  # raised again below: a nursery would wrap it in a group
                failure = error
            finally:
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await session.leave()
    if failure is not None:
        raise failure
