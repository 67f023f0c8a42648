"""Planted mistakes in changes of the voters; the numbers are those of the mistake table."""

from collections.abc import Callable
from typing import Any

from barnabas.cluster.controller import controller_state_machine
from barnabas.cluster.quorum import voter_changes
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_progress import QuorumProgress
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.cluster.quorum.voters_history import VotersHistory
from barnabas.protocol.messages_base import Message
from tests.simulation.planting import replaces


class CountsOldVoters(RaftCore):
    """5: a leader commits with the majority of the set before the last change."""

    _before: VoterSet | None = None

    def _append_voters(self, voters: VoterSet, control: tuple[Message, ...], now_ms: int) -> Entry:
        self._before = self.voters
        return super()._append_voters(voters, control, now_ms)

    def _advance_high_watermark(self) -> None:
        voters, self.voters = self.voters, self._before or self.voters
        super()._advance_high_watermark()
        self.voters = voters


@replaces(voter_changes, "check_changeable")
def change_twice_at_once(check: Callable[[RaftCore], None], core: RaftCore) -> None:
    """6: a leader changes the voters while an earlier change is not committed."""
    offset, core.voters_offset = core.voters_offset, -1
    try:
        check(core)
    finally:
        core.voters_offset = offset


@replaces(VotersHistory, "truncate")
def keep_truncated_voters(*_: Any) -> None:
    """7: a truncation of the log keeps the voters that the removed records state."""


@replaces(QuorumProgress, "majority_end_offset")
def count_observers(_: Callable[..., int], progress: QuorumProgress, voters: VoterSet) -> int:
    """8: the fetches of observers count for the high watermark."""
    known = [progress.known(key, voters).end_offset for key in voters.replica_keys]
    known += [each.end_offset for each in progress._observers.values()]
    return sorted(known, reverse=True)[voters.majority - 1]


class ElectsWithOneVoteLess(RaftCore):
    """A candidate takes the majority of the set without the last voter."""

    def _count_votes(self, now_ms: int) -> None:
        if len(self.voters) > 1 and len(self._granted) >= self.voters.majority - 1:
            self._granted |= {-1}
        super()._count_votes(now_ms)


@replaces(voter_changes, "update_voter")
def ignore_reports(*_: Any) -> None:
    """A leader does not note the endpoints that a voter reports."""


@replaces(controller_state_machine, "upgraded_voters")
def upgrade_without_directories(_: Callable[..., Any], core: RaftCore, *__: Any) -> VoterSet:
    """The first record of the voters has no directories."""
    return core.voters
