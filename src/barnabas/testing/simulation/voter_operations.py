"""Changes of the voters in the simulation: the leader's shell around `voter_changes` (KIP-853)."""

from collections.abc import Callable
from typing import Final

import attrs

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum import voter_changes
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.cluster.quorum.voters import ReplicaKey, Voter
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.simulation.network import Failure, Network, Respond
from barnabas.testing.simulation.quorum_format import controller_endpoint
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.world import Process

_TIMEOUT_MS: Final = 30_000
_VERSIONS_TIMEOUT_MS: Final = 2_000


@attrs.frozen(slots=True)
class AddVoter:
    """Make an observer a voter; the response is an ErrorCode."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    waits_for_commit: bool = True


@attrs.frozen(slots=True)
class RemoveVoter:
    """Remove a voter; the response is an ErrorCode."""

    key: ReplicaKey


@attrs.frozen(slots=True)
class UpdateVoter:
    """Note the endpoints and versions of a voter; the response is an ErrorCode."""

    voter: Voter


@attrs.frozen(slots=True)
class KraftVersions:
    """Request the kraft.versions of a replica; the response is (lowest, highest)."""


@attrs.define(slots=True, eq=False)
class _Change:
    """The change in progress; `entry` waits for its commit."""

    respond: Respond
    entry: Entry | None = None


class VoterOperations:
    """Changes the voters one at a time; a second request meanwhile is REQUEST_TIMED_OUT."""

    def __init__(
        self,
        process: Process,
        network: Network,
        core: RaftCore,
        reported: dict[int, Voter],
        settle: Callable[[], None],
    ) -> None:
        self._process = process
        self._network = network
        self._core = core
        self._reported = reported
        self._settle = settle
        self._current: _Change | None = None

    def submit(self, request: AddVoter | RemoveVoter | UpdateVoter, respond: Respond) -> None:
        """Begin a change; under kraft.version 0, only note what a voter reports about itself."""
        core = self._core
        if isinstance(request, UpdateVoter) and core.is_leader and core.kraft_version == 0:
            self._reported[request.voter.key.id] = request.voter
            respond(ErrorCode.NONE)
            return
        if self._current is not None:
            respond(ErrorCode.REQUEST_TIMED_OUT)
            return
        change = self._current = _Change(respond)
        self._process.after_ms(_TIMEOUT_MS, self._end, change, ErrorCode.REQUEST_TIMED_OUT)
        if isinstance(request, RemoveVoter):
            key, now_ms = request.key, self._process.now_ms
            self._append(change, lambda: voter_changes.remove_voter(self._core, key, now_ms))
            if change.entry is not None and key == self._core.local.key:
                self._process.world.rare.reached(RareState.LEADER_REMOVED_ITSELF)
            return
        if isinstance(request, UpdateVoter):
            voter, now_ms = request.voter, self._process.now_ms
            self._append(change, lambda: voter_changes.update_voter(self._core, voter, now_ms))
            return
        try:
            voter_changes.check_addable(self._core, request.key)
        except KafkaError as error:
            self._end(change, error.code)
            return
        self._ask_versions(change, request)

    def _ask_versions(self, change: _Change, request: AddVoter) -> None:
        key = request.key

        def answered(versions: tuple[int, int]) -> None:
            endpoints = request.endpoints or (controller_endpoint(key.id),)
            voter, now_ms = Voter(key, endpoints, *versions), self._process.now_ms
            self._append(change, lambda: voter_changes.add_voter(self._core, voter, now_ms))
            if change.entry is not None and not request.waits_for_commit:
                self._end(change, ErrorCode.NONE)
            self._settle()

        def failed(_: Failure) -> None:
            self._end(change, ErrorCode.REQUEST_TIMED_OUT)

        self._network.ask(
            self._process,
            key.id,
            "controller",
            KraftVersions(),
            answered,
            failed,
            purpose="raft-versions",
            timeout_ms=_VERSIONS_TIMEOUT_MS,
        )

    def _append(self, change: _Change, append: Callable[[], Entry | None]) -> None:
        if self._current is not change:
            return
        try:
            change.entry = append()
        except KafkaError as error:
            self._end(change, error.code)
            return
        if change.entry is None:  # nothing changes
            self._end(change, ErrorCode.NONE)

    def settled(self) -> None:
        """Answer the change in progress when it is committed, or no longer can be here."""
        change, core = self._current, self._core
        if change is None or change.entry is None:
            return
        if core.high_watermark >= change.entry.next_offset:
            self._end(change, ErrorCode.NONE)
        elif not core.is_leader or core.epoch != change.entry.epoch:
            self._end(change, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, change: _Change, outcome: ErrorCode) -> None:
        if self._current is change:
            self._current = None
            change.respond(outcome)
