"""The choice of the leader: membership in the group of registries, and a probe of the leader.

The group alone takes its session timeout to notice that a leader is gone. A follower that cannot
connect to the leader asks the group to rebalance at once.
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
from barnabas.protocol.errors import KafkaError
from barnabas.registry.core.json_fields import MalformedJsonError
from barnabas.registry.service.election_protocol import (
    PROTOCOL_TYPE,
    ElectionProtocol,
    InstanceAddress,
    InstanceIdentity,
    LeaderAssignment,
)
from barnabas.registry.service.leader_forwarding import connected_stream

logger = logging.getLogger(__name__)

SESSION_TIMEOUT_S = 10.0
REBALANCE_TIMEOUT_S = 1.0
HEARTBEAT_INTERVAL_S = 0.3

_PROBE_INTERVAL_S = 0.3
_PROBE_TIMEOUT_S = 2.0
_PROBE_FAILURES_MAX = 2
_REJOIN_BACKOFF_S = 0.5


class Leadership:
    """This instance's view of who leads. ``leader`` is absent until the group has decided."""

    def __init__(
        self, client: KafkaClient, group_id: str, own: InstanceAddress, tls: ssl.SSLContext | None
    ) -> None:
        self.own = own
        self.leader: InstanceAddress | None = None
        self._client = client
        self._tls = tls
        self._settings = GroupSettings(
            group_id,
            PROTOCOL_TYPE,
            SESSION_TIMEOUT_S,
            REBALANCE_TIMEOUT_S,
            HEARTBEAT_INTERVAL_S,
        )
        self._protocol = ElectionProtocol(InstanceIdentity(own))
        self._changed = trio.Event()

    @property
    def is_leader(self) -> bool:
        """True when this instance leads."""
        return self.leader == self.own

    async def run(self) -> None:
        """Be a member of the group for as long as the task runs."""
        while True:
            try:
                async with join_group(
                    self._client, self._settings, self._protocol, self._note
                ) as session:
                    await self._probe(session)
            except (KafkaError, ClientError) as error:
                logger.warning("cannot stay in the group of registries error=%s", error)
            await trio.sleep(_REJOIN_BACKOFF_S)

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
                if assignment.error:
                    logger.error("no leader: two instances have one URL url=%s", self.own.url)
            self._protocol.identity = InstanceIdentity(self.own, is_leader=leader == self.own)
        if leader != self.leader:
            self.leader = leader
            self._changed.set()
            self._changed = trio.Event()
            if leader is not None:
                logger.info("leader is %s own=%s", leader.url, self.own.url)

    async def _probe(self, session: GroupSession) -> None:
        """Watch the leader. Raises what ended the membership."""
        failures = 0
        while True:
            await session.wait_assigned()
            await trio.sleep(_PROBE_INTERVAL_S)
            leader = self.leader
            if leader is None or self.is_leader or await self._is_reachable(leader):
                failures = 0
                continue
            failures += 1
            if failures == _PROBE_FAILURES_MAX:
                logger.info("leader is unreachable: rejoining the group leader=%s", leader.url)
                session.request_rejoin()
                failures = 0

    async def _is_reachable(self, leader: InstanceAddress) -> bool:
        with trio.move_on_after(_PROBE_TIMEOUT_S):
            try:
                stream = await connected_stream(leader, self._tls)
            except OSError:
                return False
            await trio.aclose_forcefully(stream)
            return True
        return False
