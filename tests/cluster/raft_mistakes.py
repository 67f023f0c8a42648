"""Planted mistakes in the Raft core.

The numbers are those of `tests.simulation.mistake_table`.
"""

import attrs

from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import FetchRequest, FetchResponse, VoteRequest
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.cluster.quorum.raft_validation import fetch_error
from barnabas.protocol.errors import ErrorCode


class ForgetsLeadershipAtRestart(RaftCore):
    """1: a restarted leader starts as unattached in the epoch that it led."""

    def start(self, now_ms: int) -> None:
        if self.state.leader_id == self.local.key.id and len(self.voters) > 1:
            self._set_state(QuorumState(epoch=self.epoch))
        super().start(now_ms)


class GrantsPreVotesWhileFollowing(RaftCore):
    """3: a follower that fetches from the leader grants pre-votes."""

    def _grants(self, request: VoteRequest) -> bool:
        fetched, self._has_fetched = self._has_fetched, False
        try:
            return super()._grants(request)
        finally:
            self._has_fetched = fetched


class CommitsEarlierEpochs(RaftCore):
    """4: a leader commits records of earlier epochs without one of its epoch (Raft, figure 8)."""

    def _advance_high_watermark(self) -> None:
        self._raise_high_watermark(self._progress.majority_end_offset(self.voters))


class FollowsItself(RaftCore):
    """13: a leader that resigned follows itself after the election timeout."""

    def _leave_epoch(self, now_ms: int) -> None:
        self._follow(now_ms)


class LeadsWithoutContact(RaftCore):
    """14: a leader does not resign when no majority fetches."""

    def _tick_leader(self, now_ms: int) -> None:
        self._deadline_ms = now_ms + 1_000
        super()._tick_leader(now_ms)


class VotesTwice(RaftCore):
    """A voter grants a vote to a second candidate of the epoch."""

    def _grants(self, request: VoteRequest) -> bool:
        self.state = attrs.evolve(self.state, voted=None)
        return super()._grants(request)


class GrantsVotesToShorterLogs(RaftCore):
    """A voter does not compare the logs."""

    def _grants(self, request: VoteRequest) -> bool:
        return super()._grants(attrs.evolve(request, last_epoch=10**6))


class CountsUnsyncedRecords(RaftCore):
    """A leader counts its own records before they are durable."""

    def _append(self, entry: Entry) -> Entry:
        super()._append(entry)
        self._progress.of_voter(self.local.key.id).end_offset = entry.next_offset
        return entry


class CountsDivergedFollowers(RaftCore):
    """A leader takes the fetch offset of a diverged follower as its progress."""

    def on_fetch(self, request: FetchRequest, now_ms: int) -> FetchResponse:
        if fetch_error(request, self.epoch, is_leader=self.is_leader) is ErrorCode.NONE:
            self._note_progress(request, now_ms)
        return super().on_fetch(request, now_ms)


class LeadsWithoutMajority(RaftCore):
    """A candidate leads with half of the votes."""

    def _count_votes(self, now_ms: int) -> None:
        self._granted |= {-1}
        super()._count_votes(now_ms)
