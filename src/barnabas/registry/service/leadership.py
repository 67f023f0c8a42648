"""The choice of the leader: membership in the group of registries, and a watch on the leader.

Each instance is a static member (KIP-345) whose instance id is its URL: an instance that is killed
and started again takes its predecessor's place at once, without a rebalance. The group alone takes
its session timeout to notice that a member is gone for good. So a follower to which the leader
refuses connections removes the leader from the group, which then elects another one.
"""

import logging
import ssl

import trio

from barnabas.client import ClientError, KafkaClient
from barnabas.client.group_session import (
    Assigned,
    GroupEvent,
    GroupSession,
    GroupSettings,
    Revoked,
    join_group,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.registry.core.json_fields import MalformedJsonError
from barnabas.registry.service.election_protocol import (
    PROTOCOL_TYPE,
    ElectionProtocol,
    InstanceAddress,
    InstanceIdentity,
    LeaderAssignment,
)
from barnabas.registry.service.leader_watch import LeaderWatch

logger = logging.getLogger(__name__)

SESSION_TIMEOUT_S = 6.0
"""The shortest that Kafka accepts by default (group.min.session.timeout.ms)."""
REBALANCE_TIMEOUT_S = 1.0
HEARTBEAT_INTERVAL_S = 0.3

_REJOIN_BACKOFF_S = 0.5
_FENCED_BACKOFF_S = 5.0
_REMOVAL_RETRY_S = 0.5


class Leadership:
    """This instance's view of who leads. ``leader`` is absent until the group has decided."""

    def __init__(
        self, client: KafkaClient, group_id: str, own: InstanceAddress, tls: ssl.SSLContext | None
    ) -> None:
        self.own = own
        self.leader: InstanceAddress | None = None
        self._client = client
        self._watch = LeaderWatch(tls)
        self._session: GroupSession | None = None
        self._leader_member_id: str | None = None
        self._settings = GroupSettings(
            group_id,
            PROTOCOL_TYPE,
            SESSION_TIMEOUT_S,
            REBALANCE_TIMEOUT_S,
            HEARTBEAT_INTERVAL_S,
            instance_id=own.url,
        )
        self._protocol = ElectionProtocol(InstanceIdentity(own))
        self._changed = trio.Event()

    @property
    def is_leader(self) -> bool:
        """True when this instance leads."""
        return self.leader == self.own

    async def run(self) -> None:
        """Be a member of the group for as long as the task runs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_leaders)
            while True:
                backoff_s = await self._stay_in_group()
                await trio.sleep(backoff_s)

    async def _stay_in_group(self) -> float:
        """Be a member until the group refuses it; return the seconds to wait before a new join."""
        try:
            async with join_group(
                self._client, self._settings, self._protocol, self._note
            ) as self._session:
                await self._session.wait_ended()
        except (KafkaError, ClientError) as error:
            if isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_INSTANCE_ID:
                logger.error("another instance has the same URL url=%s", self.own.url)
                return _FENCED_BACKOFF_S
            logger.warning("cannot stay in the group of registries error=%s", error)
        finally:
            self._session = None
        return _REJOIN_BACKOFF_S

    async def changed(self) -> None:
        """Return when the leader is another one than now."""
        await self._changed.wait()

    async def known(self) -> InstanceAddress:
        """Return the leader, as soon as there is one."""
        while self.leader is None:
            await self._changed.wait()
        return self.leader

    def _note(self, event: GroupEvent) -> None:
        """Take in what the group decides. While it rebalances, the leader stays the same."""
        if isinstance(event, Revoked) and not event.is_lost:
            return
        leader = None
        if isinstance(event, Assigned):
            try:
                assignment = LeaderAssignment.decoded(event.assignment)
            except MalformedJsonError as error:
                logger.warning("ignoring assignment error=%s", error)
            else:
                leader = assignment.leader and assignment.leader.address
                self._leader_member_id = assignment.member_id
                if assignment.error:
                    logger.error("no leader: two instances have one URL url=%s", self.own.url)
            self._protocol.identity = InstanceIdentity(self.own, is_leader=leader == self.own)
        if leader != self.leader:
            self.leader = leader
            self._changed.set()
            self._changed = trio.Event()
            if leader is not None:
                logger.info("leader is %s own=%s", leader.url, self.own.url)

    async def _watch_leaders(self) -> None:
        """Watch the present leader, and after each change the next one."""
        while True:
            leader, changed = self.leader, self._changed
            async with trio.open_nursery() as nursery:
                if leader is not None and leader != self.own:
                    nursery.start_soon(self._watch_leader, leader)
                await changed.wait()
                nursery.cancel_scope.cancel()

    async def _watch_leader(self, leader: InstanceAddress) -> None:
        """Remove a leader whose process has ended from the group."""
        while True:
            await self._watch.wait_gone(leader)
            logger.info("leader refuses connections: removing it leader=%s", leader.url)
            await self._remove_leader(leader)

    async def _remove_leader(self, leader: InstanceAddress) -> None:
        """Have the group remove the leader; again until the group answers."""
        reason = "refuses connections"
        member = LeaveGroupRequest.MemberIdentity
        # A leader that was restarted has a new member id; another kind of registry has no
        # instance id.
        members = [member(group_instance_id=leader.url, reason=reason)]
        if self._leader_member_id:
            members.append(member(member_id=self._leader_member_id, reason=reason))
        while True:
            if self._session is not None:
                try:
                    await self._session.remove(members)
                    return
                except (KafkaError, ClientError) as error:
                    logger.warning("cannot remove the leader leader=%s error=%s", leader.url, error)
            await trio.sleep(_REMOVAL_RETRY_S)
