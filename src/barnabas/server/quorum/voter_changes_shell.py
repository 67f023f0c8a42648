"""Requests that change the voters, at the leader: checks, ApiVersions of a newcomer, the commit."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum import voter_changes
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.cluster.quorum.voters import ReplicaKey, Voter
from barnabas.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.server.quorum.raft_peers import RaftPeers
    from barnabas.server.quorum.raft_shell import RaftShell

_TIMEOUT_S: Final = 30.0


class VoterChanges:
    """Changes the voters one at a time; a second request meanwhile is REQUEST_TIMED_OUT."""

    def __init__(
        self,
        core: RaftCore,
        shell: "RaftShell",
        peers: "RaftPeers",
        reported: dict[int, Voter],
        *,
        listener_name: str,
        clock: Clock,
    ) -> None:
        self._core = core
        self._shell = shell
        self._peers = peers
        self._reported = reported
        self._listener_name = listener_name
        self._now_ms = clock.monotonic_ms
        self._is_changing = False

    async def add(
        self,
        key: ReplicaKey,
        endpoints: tuple[Endpoint, ...],
        *,
        timeout_s: float,
        wait_for_commit: bool = True,
    ) -> None:
        """Make an observer a voter. Raises KafkaError."""
        self._check_listener(endpoints)
        with self._one_at_a_time(), _within(timeout_s):
            voter_changes.check_addable(self._core, key)
            low, high = await self._kraft_versions(endpoints)
            voter = Voter(key, endpoints, low, high)
            entry = voter_changes.add_voter(self._core, voter, self._now_ms())
            await self._finish(entry, wait_for_commit=wait_for_commit)

    async def remove(self, key: ReplicaKey) -> None:
        """Remove a voter, which may be this leader. Raises KafkaError."""
        with self._one_at_a_time(), _within(_TIMEOUT_S):
            entry = voter_changes.remove_voter(self._core, key, self._now_ms())
            await self._finish(entry, wait_for_commit=True)

    async def update(self, voter: Voter) -> None:
        """Note new endpoints or versions of a voter. Raises KafkaError."""
        self._check_listener(voter.endpoints)
        if self._core.is_leader and self._core.kraft_version == 0:
            self._reported[voter.key.id] = voter
            return
        with self._one_at_a_time(), _within(_TIMEOUT_S):
            entry = voter_changes.update_voter(self._core, voter, self._now_ms())
            if entry is not None:
                await self._finish(entry, wait_for_commit=True)

    def _check_listener(self, endpoints: tuple[Endpoint, ...]) -> None:
        if self._listener_name not in {each.name for each in endpoints}:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The request doesn't include an endpoint for the listener {self._listener_name}",
            )

    async def _kraft_versions(self, endpoints: tuple[Endpoint, ...]) -> tuple[int, int]:
        endpoint = next(each for each in endpoints if each.name == self._listener_name)
        found = await self._peers.kraft_versions(endpoint)
        if found is None:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The new voter does not answer at {endpoint.host}:{endpoint.port}",
            )
        return found

    async def _finish(self, entry: Entry, *, wait_for_commit: bool) -> None:
        self._shell.wake()
        if wait_for_commit:
            await self._shell.wait_committed(entry)

    @contextmanager
    def _one_at_a_time(self) -> Generator[None]:
        if self._is_changing:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "An earlier change of the voters is in progress"
            )
        self._is_changing = True
        try:
            yield
        finally:
            self._is_changing = False


@contextmanager
def _within(timeout_s: float) -> Generator[None]:
    """Raise KafkaError REQUEST_TIMED_OUT when the block takes longer."""
    try:
        with tasks.fail_after(timeout_s):
            yield
    except tasks.TimeIsUpError:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The change of the voters was not committed in time"
        ) from None
