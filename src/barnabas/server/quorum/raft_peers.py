"""The connections of this node to the other replicas of the quorum.

There is one connection for each replica, with the client id `raft-client-<node id>`. A request that
is refused or reset is reported to the core at once, one without a response after the request
timeout. One task fetches from the leader, or from a bootstrap server while the leader is unknown.
"""

import logging
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.metadata.feature_levels import KRAFT_VERSION
from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    Outgoing,
    VoteRequest,
    VoteResponse,
)
from barnabas.protocol.errors import EncodingError, ErrorCode, error_code
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages_base import Message
from barnabas.server.node_failures import DisksLostError
from barnabas.server.open_nursery import OpenNursery
from barnabas.server.peer_security import Secured, plain
from barnabas.server.quorum.rare_log import PeerFailures, RareLog

if TYPE_CHECKING:
    from barnabas.client.broker_connection import BrokerConnection
    from barnabas.client.connection_pool import ConnectionPool
    from barnabas.client.failures import Address
    from barnabas.cluster.quorum.voter_upkeep import UpkeepRequest
    from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest
    from barnabas.server.quorum.quorum_addresses import QuorumAddresses
    from barnabas.server.quorum.raft_shell import RaftShell
    from barnabas.server.storage.disk_threads import DiskThreads

logger = logging.getLogger(__name__)

_FETCH_WAIT_MS: Final = 500
_RECONNECT_S: Final = (0.02, 0.2)
"""The shortest and the longest time between attempts to connect to one replica."""
_GONE_CHECK_S: Final = 0.05
_REFUSED_PAUSE_S: Final = 1.0
"""The longest pause between fetches without a usable response; a change of leader ends it."""

_EXPECTED: Final = {
    ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.BROKER_NOT_AVAILABLE,
}
"""The errors that fetches get while leaders change."""

_HINTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_ID: "this address is not a controller listener",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "this address is not a controller listener",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the directories of one of the two nodes belong to another "
    "cluster: compare cluster.id in their meta.properties",
}

R = TypeVar("R", bound=Message)


@attrs.frozen(kw_only=True)
class PeerSettings:
    """Ids and times for the requests between replicas."""

    node_id: int
    cluster_id: str
    request_timeout_s: float = 2.0
    retry_backoff_s: float = 0.02
    fetch_bytes_max: int = 1 << 20
    snapshot_bytes_max: int = 1 << 20
    directory: Path
    """The directory of the quorum's log, for downloaded snapshots."""
    secured: Secured = plain


class RaftPeers:
    """Sends the core's messages and fetches, and passes the responses or failures to the core."""

    def __init__(
        self,
        core: RaftCore,
        addresses: "QuorumAddresses",
        settings: PeerSettings,
        *,
        disk: "DiskThreads",
        clock: Clock,
    ) -> None:
        self._core = core
        self._disk = disk
        self._addresses = addresses
        self._settings = settings
        self._clock, self._now_ms = clock, clock.monotonic_ms
        self._shell: RaftShell
        self._nursery = OpenNursery()
        self._pool: ConnectionPool | None = None
        self._settled = tasks.event()
        self._fetch_scope: tasks.CancelScope | None = None
        self._fetch_sent: FetchRequest | None = None
        self._fetch_epoch: tuple[int, int | None] | None = None
        self._fetch_refusals = 0
        self._log = RareLog()
        self._failures = PeerFailures()
        self._download_scope = tasks.cancel_scope()
        self._download_lock = tasks.lock()
        self._downloads = 0

    async def run(self, shell: "RaftShell", task_status: tasks.TaskStatus = tasks.IGNORED) -> None:
        """Send messages, and fetch whenever the core does, until cancelled."""
        self._shell = shell
        await self._nursery.serve(task_status, self._fetch_forever)

    # The seam of the shell

    def send(self, message: Outgoing) -> None:
        """Send a message to a voter; failures are passed to the core."""
        nursery = self._nursery.current
        if nursery is not None and not isinstance(message, VoteResponse):
            nursery.start_soon(self._exchange, message)

    def fetch_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Begin to download a snapshot from the leader, in place of an earlier download."""
        nursery = self._nursery.current
        if nursery is not None:
            self._download_scope.cancel()
            self._download_scope = scope = tasks.cancel_scope()
            nursery.start_soon(self._download_in, scope, snapshot)

    def settled(self) -> None:
        """Send the next fetch, or cancel one that is outdated."""
        core, sent, scope = self._core, self._fetch_sent, self._fetch_scope
        is_outdated = sent is not None and (sent.epoch, sent.to) != (core.epoch, core.leader_id)
        if scope is not None and is_outdated:
            scope.cancel()
        if not core.is_leader:
            settled, self._settled = self._settled, tasks.event()
            settled.set()

    # Messages to voters

    async def _exchange(self, message: VoteRequest | BeginQuorumEpoch | EndQuorumEpoch) -> None:
        from barnabas.client.failures import ClientError

        address = self._addresses.of_node(message.to)
        try:
            if address is None:
                self._core.on_request_failed(message, self._now_ms())
            elif isinstance(message, VoteRequest):
                await self._request_vote(message, address)
            else:
                await self._announce(message, address)
            self._failures.succeeded(message.to)
        except ClientError as error:
            if self._failures.is_due(message.to, tasks.current_time()):
                logger.warning(
                    "cannot reach voter id=%d address=%s error=%s", message.to, address, error
                )
            self._core.on_request_failed(message, self._now_ms())
        self._shell.wake()

    async def _request_vote(self, message: VoteRequest, address: "Address") -> None:
        from barnabas.cluster.quorum import raft_wire
        from barnabas.protocol.messages.vote import VoteResponse as VoteAnswer

        request = raft_wire.vote_request(message, self._settings.cluster_id)
        try:
            response = await self._send(address, request, VoteAnswer)
        except EncodingError as error:
            self._take_old_voter(message, error)
            return
        answer = raft_wire.read_vote_response(message, response)
        if answer is None:
            self._log_refusal("Vote", address, response.error_code)
            self._core.on_request_failed(message, self._now_ms())
        else:
            self._addresses.learn(answer.epoch, answer.leader_id, response.node_endpoints)
            self._core.on_vote_response(answer, self._now_ms())

    def _take_old_voter(self, message: VoteRequest, error: EncodingError) -> None:
        """Count a voter whose version has no pre-votes as one that grants them."""
        if message.pre_vote:
            granted = VoteResponse(message, message.to, message.epoch, None, True)
            self._core.on_vote_response(granted, self._now_ms())
        else:
            logger.warning("cannot send a vote request to=%d error=%s", message.to, error)
            self._core.on_request_failed(message, self._now_ms())

    async def _announce(
        self, message: BeginQuorumEpoch | EndQuorumEpoch, address: "Address"
    ) -> None:
        from barnabas.cluster.quorum import raft_wire
        from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
        from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse

        cluster_id, own = self._settings.cluster_id, self._core.local.endpoints
        response: BeginQuorumEpochResponse | EndQuorumEpochResponse
        if isinstance(message, BeginQuorumEpoch):
            request: Any = raft_wire.begin_request(message, cluster_id, own)
            response = await self._ask(address, request, BeginQuorumEpochResponse)
        else:
            request = raft_wire.end_request(message, cluster_id, own)
            response = await self._ask(address, request, EndQuorumEpochResponse)
        stated = raft_wire.read_epoch_response(response)
        if stated is None:
            self._log_refusal(type(message).__name__, address, response.error_code)
        else:
            self._addresses.learn(*stated, response.node_endpoints)
            self._core.on_epoch(*stated, self._now_ms())

    async def _ask(self, address: "Address", request: Message, answer: type[R]) -> R:
        """Send a request and return its response. Raises ClientError."""
        from barnabas.client.failures import UnsupportedVersionError

        try:
            return await self._send(address, request, answer)
        except EncodingError as error:
            raise UnsupportedVersionError(
                f"{address} serves older versions only: {error}"
            ) from None

    async def _send(self, address: "Address", request: Message, answer: type[R]) -> R:
        """Send a request and return its response; a connection without one in time is closed.

        Raises ClientError, and EncodingError when the peer's versions cannot carry the request.
        """
        from barnabas.client.failures import BrokerSilentError

        timeout_s = self._settings.request_timeout_s
        deadline = tasks.current_time() + timeout_s
        connection: BrokerConnection | None = None
        with tasks.move_on_at(deadline):
            connection = await self._connections().connection(address)
        if connection is None:
            raise BrokerSilentError(address, f"no connection within {timeout_s:g} s")
        # Its time-out closes the connection: the peer may have lost its power and be back, while
        # TCP repeats what the former connection has not delivered after ever longer pauses.
        left_s = max(0.0, deadline - tasks.current_time())
        return await connection.ask(request, answer, timeout_s=left_s)

    def _connections(self) -> "ConnectionPool":
        if self._pool is None:
            from barnabas.client.client_config import ClientConfig
            from barnabas.client.connection_pool import ConnectionPool

            nursery = self._nursery.current
            if nursery is None:
                raise RuntimeError("the peers do not run")
            settings, (shortest_s, longest_s) = self._settings, _RECONNECT_S
            config = ClientConfig(
                (),
                client_id=f"raft-client-{settings.node_id}",
                connect_timeout_s=settings.request_timeout_s,
                request_timeout_s=settings.request_timeout_s,
                reconnect_backoff_s=shortest_s,
                reconnect_backoff_max_s=longest_s,
            )
            self._pool = ConnectionPool(settings.secured(config), nursery)
        return self._pool

    def _log_refusal(self, request: str, address: "Address", number: int) -> None:
        if not self._log.is_due((request, address, number), tasks.current_time()):
            return
        error = error_code(number)
        hint = _HINTS.get(error)
        logger.warning(
            "quorum request refused request=%s address=%s error=%s%s",
            request,
            address,
            error.name,
            "" if hint is None else f" hint={hint}",
        )

    async def kraft_versions(self, endpoint: Endpoint) -> tuple[int, int] | None:
        """Return the kraft.versions that a replica supports; None when it does not answer."""
        from barnabas.client.failures import Address, ClientError

        request = ApiVersionsRequest(client_software_name="barnabas", client_software_version="1")
        try:
            response = await self._ask(
                Address(endpoint.host, endpoint.port), request, ApiVersionsResponse
            )
        except ClientError as error:
            logger.warning("cannot reach a new voter error=%s", error)
            return None
        for feature in response.supported_features:
            if feature.name == KRAFT_VERSION:
                return feature.min_version, feature.max_version
        return 0, 0

    async def send_upkeep(self, request: "UpkeepRequest", answer: type[R]) -> R | None:
        """Send a request to the leader; None when it cannot be reached, or is too old for it."""
        from barnabas.client.failures import ClientError

        leader_id = self._core.leader_id
        address = None if leader_id is None else self._addresses.of_node(leader_id)
        if address is None:
            return None
        try:
            return await self._ask_upkeep(address, request, answer)
        except ClientError as error:
            logger.debug("quorum request failed address=%s error=%s", address, error)
            return None

    async def _ask_upkeep(self, address: "Address", request: "UpkeepRequest", answer: type[R]) -> R:
        from barnabas.cluster.quorum.voter_upkeep import oldest_form

        try:
            return await self._send(address, request, answer)
        except EncodingError:
            return await self._ask(address, oldest_form(request), answer)

    async def wait_until_gone(self) -> None:
        """Return when each other voter has refused or reset a connection since this call."""
        async with tasks.open_nursery() as nursery:
            for voter in self._core.voters:
                if voter.key.id != self._core.local.key.id:
                    nursery.start_soon(self._wait_until_voter_gone, voter.key.id)

    async def _wait_until_voter_gone(self, voter_id: int) -> None:
        from barnabas.client.failures import BrokerGoneError, ClientError

        while True:
            address = self._addresses.of_node(voter_id)
            try:
                if address is not None:
                    await self._connections().connection(address)  # an open one counts
            except BrokerGoneError:
                return
            except ClientError as error:
                logger.debug("quorum connection failed to=%d error=%s", voter_id, error)
            await tasks.sleep(_GONE_CHECK_S)

    # Snapshots

    async def _download_in(self, scope: tasks.CancelScope, snapshot: OffsetAndEpoch) -> None:
        """Download a snapshot after the earlier download has ended."""
        with scope:
            async with self._download_lock:
                await self._download(snapshot)

    async def _download(self, snapshot: OffsetAndEpoch) -> None:
        from barnabas.client.failures import ClientError
        from barnabas.protocol.messages.fetch_snapshot import (
            FetchSnapshotResponse,
        )
        from barnabas.server.quorum.snapshot_download import SnapshotDownload

        leader_id, settings = self._core.leader_id, self._settings
        address = None if leader_id is None else self._addresses.of_node(leader_id)
        if address is None:
            self._shell.snapshot_failed()
            return

        async def ask(request: "FetchSnapshotRequest") -> FetchSnapshotResponse:
            return await self._ask(address, request, FetchSnapshotResponse)

        self._downloads += 1
        download = SnapshotDownload(
            self._core,
            snapshot,
            ask,
            number=self._downloads,
            directory=settings.directory,
            disk=self._disk,
            clock=self._clock,
            max_bytes=settings.snapshot_bytes_max,
            cluster_id=settings.cluster_id,
        )
        try:
            downloaded = await download.run()
        except ClientError as error:
            logger.warning("cannot download a snapshot address=%s error=%s", address, error)
            downloaded = None
        except OSError as error:
            raise DisksLostError(f"a snapshot cannot be written: {error}") from error
        if downloaded is not None:
            self._shell.snapshot_downloaded(downloaded)
        elif self._core.snapshot_in_progress == snapshot:
            await tasks.sleep(settings.retry_backoff_s)
            self._shell.snapshot_failed()
        else:
            self._shell.wake()  # the refusal may have named another epoch: fetch in that one

    # Fetching

    async def _fetch_forever(self) -> None:
        failures = 0
        while True:
            settled = self._settled
            request = self._shell.fetch_request()
            if request is None:
                await settled.wait()
                continue
            address = self._destination(request, failures)
            is_leader = request.to is not None and address == self._addresses.of_node(request.to)
            with tasks.cancel_scope() as scope:
                self._fetch_scope, self._fetch_sent = scope, request
                await self._pause_after_refusals(request)
                is_answered = address is not None and await self._fetch(request, address, is_leader)
                failures = 0 if is_answered else failures + 1
            self._fetch_scope = self._fetch_sent = None
            if failures:
                await tasks.sleep(self._settings.retry_backoff_s)

    def _warn_of_answer(self, address: "Address", response: FetchResponse) -> None:
        """Log an answer that shows a mistake in the configuration, of this node or of another."""
        if response.error not in _EXPECTED:
            self._log_refusal("Fetch", address, response.error)
        own_id, is_own = self._core.local.key.id, "leader with this node's id"
        if response.leader_id != own_id:
            self._failures.succeeded(is_own)
        elif self._failures.is_due(is_own, tasks.current_time()):
            # For a moment after a restart, others still name this node as the leader it was.
            logger.warning(
                "another process with this node.id leads the quorum node_id=%d stated_by=%s",
                own_id,
                address,
            )

    async def _pause_after_refusals(self, request: FetchRequest) -> None:
        """Wait longer after each refused or malformed response in one epoch of one leader."""
        former, self._fetch_epoch = self._fetch_epoch, (request.epoch, request.to)
        refusals = self._fetch_refusals + self._shell.malformed_responses
        if refusals and former == self._fetch_epoch:
            pause_s = self._settings.retry_backoff_s * 2 ** min(refusals, 10)
            await tasks.sleep(min(pause_s, _REFUSED_PAUSE_S))

    def _destination(self, request: FetchRequest, failures: int) -> "Address | None":
        """Return the leader's address; after failures, each second time a bootstrap server's."""
        if request.to is not None and failures % 2 == 0:
            address = self._addresses.of_node(request.to)
            if address is not None:
                return address
        servers = self._addresses.bootstrap()
        return tasks.local(Random).choice(servers) if servers else None

    async def _fetch(self, request: FetchRequest, address: "Address", is_leader: bool) -> bool:
        """Send a fetch and pass on its response; return False when it failed."""
        from barnabas.client.failures import (
            AuthenticationError,
            BrokerRefusedError,
            ClientError,
            TlsError,
        )
        from barnabas.cluster.quorum import raft_wire
        from barnabas.protocol.messages.fetch import FetchResponse as FetchAnswer

        limits = raft_wire.FetchLimits(
            self._settings.fetch_bytes_max, _FETCH_WAIT_MS, self._shell.high_watermark
        )
        sent = raft_wire.fetch_request(request, self._settings.cluster_id, limits)
        try:
            response = await self._ask(address, sent, FetchAnswer)
        except ClientError as error:
            if self._failures.is_due(address, tasks.current_time()):
                logger.warning("cannot fetch the metadata from=%s error=%s", address, error)
            if isinstance(error, AuthenticationError | TlsError):
                self._addresses.refusal = str(error)
            if isinstance(error, BrokerRefusedError) and is_leader:
                self._core.on_leader_unreachable(self._now_ms())
                self._shell.wake()
            return False
        self._failures.succeeded(address)
        read = raft_wire.read_fetch_response(response)
        if read is None:
            self._log_refusal("Fetch", address, response.error_code)
            self._fetch_refusals += 1
            return False
        self._fetch_refusals = 0
        self._warn_of_answer(address, read[0])
        self._addresses.learn(read[0].epoch, read[0].leader_id, response.node_endpoints)
        self._shell.fetched(request, *read)
        return read[0].error is ErrorCode.NONE
