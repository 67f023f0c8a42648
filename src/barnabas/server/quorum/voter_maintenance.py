"""The task that keeps this node's entry among the voters current, or lets it join them."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from barnabas import tasks
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.voter_upkeep import UpkeepRequest, next_upkeep
from barnabas.config import NodeConfig
from barnabas.protocol.apis import API
from barnabas.protocol.errors import ErrorCode, error_code

if TYPE_CHECKING:
    from barnabas.server.quorum.raft_peers import RaftPeers

logger = logging.getLogger(__name__)


class VoterMaintenance:
    """Sends the requests of `voter_upkeep` while this node follows a leader.

    It looks once every controller.quorum.fetch.timeout.ms, and not at all while it leads or the
    leader is unknown.
    """

    def __init__(
        self, core: RaftCore, peers: "RaftPeers", cluster_id: str, config: NodeConfig
    ) -> None:
        self._core = core
        self._peers = peers
        self._cluster_id = cluster_id
        self._interval_ms = config.get_int("controller.quorum.fetch.timeout.ms")
        self._auto_join = config.get_bool("controller.quorum.auto.join.enable")
        self._reported_epoch = -1
        self._is_warned = False

    async def run(self, follows_leader: Callable[[], Awaitable[None]]) -> None:
        """Look at intervals until cancelled; `follows_leader` returns when this node follows."""
        core = self._core
        while True:
            await follows_leader()
            await tasks.sleep(self._interval_ms / 1000)
            self._warn_of_other_directory()
            request = next_upkeep(
                core, self._cluster_id, self._interval_ms, auto_join=self._auto_join
            )
            # Without a record of the voters, each leader gets one report.
            is_reported = core.kraft_version == 0 and self._reported_epoch == core.epoch
            if request is not None and not is_reported:
                await self._send(request)

    async def _send(self, request: UpkeepRequest) -> None:
        epoch = self._core.epoch
        response = await self._peers.send_upkeep(request, API[request.API_KEY].response_type)
        number = getattr(response, "error_code", None)
        if number == ErrorCode.NONE:
            self._reported_epoch = epoch
        elif number is not None:
            logger.info(
                "voter request refused request=%s error=%s",
                type(request).__name__,
                error_code(number).name,
            )

    def _warn_of_other_directory(self) -> None:
        """Warn once when the quorum has this node's id with another directory: a lost disk."""
        core, own = self._core, self._core.local.key
        voter = core.voters.voters.get(own.id)
        if core.is_voter or voter is None or self._is_warned:
            return
        self._is_warned = True
        logger.warning(
            "this node is not a voter, it follows as an observer: the voter with its id has another"
            " directory node_id=%d directory=%s voter_directory=%s hint=%s",
            own.id,
            own.directory_id,
            voter.key.directory_id,
            "remove that voter, then add this one ('barnabas cluster voters')",
        )
