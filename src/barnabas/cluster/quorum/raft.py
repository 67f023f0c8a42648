"""The Raft core of the quorum in KRaft's terms, without I/O.

`on_*` and `tick` take events and `now_ms`; `take_ready` returns the effects to carry out, in order.
The core keeps the log's end, its epochs and the high watermark; the shell owns the files. KRaft
differs from the Raft paper: followers pull records (Fetch), so a leader learns their progress from
their requests (KIP-595); a vote names a replica's directory (KIP-853); a pre-vote keeps a replica
that cannot win from disturbing the leader (KIP-996). Source: `KafkaRaftClient`, `QuorumState`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from barnabas.cluster.quorum.epoch_history import EpochHistory, OffsetAndEpoch
from barnabas.cluster.quorum.epoch_records import leader_change
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    Outgoing,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.raft_progress import QuorumProgress
from barnabas.cluster.quorum.raft_state import (
    Entry,
    Progress,
    QuorumDataLossError,
    Ready,
    Role,
    Timeouts,
)
from barnabas.cluster.quorum.raft_validation import (
    announcement_error,
    fetch_error,
    leader_only_error,
    needs_snapshot,
    vote_error,
)
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.cluster.quorum.voters_history import StatedVoters
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.control_records import KRaftVersionRecord
from barnabas.protocol.types import ZERO_UUID

BOOTSTRAP_VOTERS_OFFSET: Final = -1
"""The offset of voters that only the bootstrap snapshot has."""

_PRE_VOTES_MAX: Final = 5
"""The pre-votes in quick succession when the leader's process has ended."""

_SUCCESSION_STEP_MS: Final = 50
"""The delay of each further voter, in ms, when several notice at once that the leader is gone."""


class RaftCore:
    """One replica of the quorum's log.

    `log` describes the log found at start-up, all of it durable. `voters_offset` is the offset of
    the record with `voters`, -1 if only the bootstrap snapshot has them. `random(n)` returns a
    number below n.
    """

    def __init__(
        self,
        *,
        local: Voter,
        voters: VoterSet,
        voters_offset: int,
        kraft_version: int,
        state: QuorumState,
        log: EpochHistory,
        random: Callable[[int], int],
        timeouts: Timeouts,
    ) -> None:
        self.local = local
        self.voters = voters
        self.voters_offset = voters_offset
        self.kraft_version = kraft_version
        self._previous_voters = VoterSet.of()
        self.state = state
        self.log = log
        self.role = Role.UNATTACHED
        self.high_watermark = log.start_offset
        self.epoch_start_offset = -1
        self._timeouts = timeouts
        self._random = random
        self._deadline_ms = 0
        self._begin_epoch_ms = 0
        self._granted: set[int] = set()
        self._refused: set[int] = set()
        self._failed_requests: set[int] = set()  # vote requests to send again at _retry_ms
        self._retry_ms = 0
        self._progress = QuorumProgress(local.key)  # as a leader
        self._elections = 0
        self._has_fetched = False  # from the current leader
        self._is_leader_gone = False  # its process has ended
        self.snapshot_in_progress: OffsetAndEpoch | None = None  # being downloaded
        self._ready = Ready()
        if log.last_epoch > state.epoch:
            # The log has records of this epoch, so the state file was lost.
            self._set_state(QuorumState(epoch=log.last_epoch))

    # State

    @property
    def epoch(self) -> int:
        """The latest epoch that this replica knows."""
        return self.state.epoch

    @property
    def leader_id(self) -> int | None:
        """The leader of the epoch, or None when it is unknown or has resigned."""
        return None if self.role is Role.RESIGNED else self.state.leader_id

    @property
    def is_leader(self) -> bool:
        """True when this replica leads its epoch."""
        return self.role is Role.LEADER

    @property
    def is_voter(self) -> bool:
        """True when this replica may become the leader."""
        return self.voters.is_voter(self.local.key)

    @property
    def _may_campaign(self) -> bool:
        """True for a voter, and for one whose removal may not be committed: others may need it."""
        was_voter = self._previous_voters.is_voter(self.local.key)
        return self.is_voter or (was_voter and self.voters_offset >= self.high_watermark)

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.log.end_offset

    @property
    def leader_high_watermark(self) -> int:
        """The high watermark as a leader reports it: -1 before a commit in its own epoch.

        A follower may know a higher one than a new leader that learned it late, and an Apache
        Kafka follower ends its process when the high watermark falls.
        """
        return self.high_watermark if self.high_watermark > self.epoch_start_offset else -1

    def progress_of(self, key: ReplicaKey) -> Progress:
        """Return a leader's knowledge of a voter or observer; unknown values are -1."""
        return self._progress.known(key, self.voters)

    def observers(self, now_ms: int) -> list[ReplicaKey]:
        """Return the observers that have fetched from this leader within five minutes."""
        return self._progress.observers(now_ms)

    def wakeup_ms(self) -> int | None:
        """Return when `tick` is due next; None when time changes nothing."""
        if self.role is Role.LEADER:
            return None if self._is_single_voter else self._leader_wakeup_ms()
        is_timed = self._may_campaign or self.role is Role.RESIGNED
        due = self._deadline_ms if is_timed else None
        if self._failed_requests:
            return self._retry_ms if due is None else min(due, self._retry_ms)
        return due

    @property
    def _is_removed(self) -> bool:
        """True when this leader has removed itself from the voters, and that is committed."""
        return not self.is_voter and self.voters_offset < self.high_watermark

    def _leader_wakeup_ms(self) -> int:
        return 0 if self._is_removed else min(self._deadline_ms, self._begin_epoch_ms)

    def take_ready(self) -> Ready:
        """Return the effects since the last call."""
        ready, self._ready = self._ready, Ready()
        return ready

    # Time

    def start(self, now_ms: int) -> None:
        """Begin: a single voter elects itself at once; others look for a leader."""
        if self._is_single_voter:
            self._campaign(now_ms)
        elif self.state.leader_id == self.local.key.id:
            # Records of this epoch that were not synced may be lost, so this replica must neither
            # lead nor vote in the epoch again.
            self._leave_epoch(now_ms)
            self._deadline_ms = now_ms + self._turn_ms()
        elif self.state.leader_id is None:
            # Pre-votes do not disturb a leader, so there is no reason to wait for one.
            self._deadline_ms = now_ms + self._turn_ms()
        else:
            self._follow(now_ms)

    def tick(self, now_ms: int) -> None:
        """Do what is due: elections, retries, giving up a lost leader or a lost majority."""
        if self.role is Role.LEADER:
            self._tick_leader(now_ms)
            return
        if self._failed_requests and now_ms >= self._retry_ms:
            self._retry_vote_requests()
        if now_ms < self._deadline_ms:
            return
        if self.role is Role.RESIGNED:
            self._leave_epoch(now_ms)
        elif not self._may_campaign:
            return
        elif self.role is Role.PROSPECTIVE and not self._asks_again:
            self._lose(now_ms)
        else:
            self._prospect(now_ms)

    def _tick_leader(self, now_ms: int) -> None:
        if self._is_single_voter:
            return
        if self._is_removed:
            self.resign(now_ms)
            self._deadline_ms = now_ms  # an observer has no reason to wait for candidates
        elif now_ms >= self._deadline_ms:
            self.resign(now_ms)
        elif now_ms >= self._begin_epoch_ms:
            self._announce(now_ms)

    @property
    def _is_single_voter(self) -> bool:
        return len(self.voters) == 1 and self.is_voter

    def _election_timeout(self) -> int:
        """Return a random timeout in ms, longer after each election without a winner."""
        return self._timeouts.attempt_ms(self._elections, self._random)

    # Elections

    def _prospect(self, now_ms: int) -> None:
        """Request pre-votes in the current epoch; a leader may still exist."""
        self.role = Role.PROSPECTIVE
        self._request_votes(now_ms, pre_vote=True)

    def _campaign(self, now_ms: int) -> None:
        """Request votes in the next epoch, and vote for this replica."""
        self.role = Role.CANDIDATE
        self._set_state(QuorumState(epoch=self.epoch + 1, voted=self.local.key))
        self._request_votes(now_ms, pre_vote=False)

    def _request_votes(self, now_ms: int, *, pre_vote: bool) -> None:
        self._elections += 1
        self._granted = {self.local.key.id} if self.is_voter else set()
        self._refused = set()
        self._failed_requests = set()
        self._deadline_ms = now_ms + self._election_timeout()
        for voter in self.voters:
            if voter.key.id != self.local.key.id:
                self._send(self._vote_request(voter.key.id, pre_vote=pre_vote))
        self._count_votes(now_ms)

    def _vote_request(self, voter_id: int, *, pre_vote: bool) -> VoteRequest:
        return VoteRequest(
            to=voter_id,
            voter=self.voters.voters[voter_id].key,
            epoch=self.epoch,
            candidate=self.local.key,
            last_epoch=self.log.last_epoch,
            end_offset=self.log.end_offset,
            pre_vote=pre_vote,
        )

    def on_request_failed(self, request: Outgoing, now_ms: int) -> None:
        """A request got no response (timeout or disconnect); vote requests are sent again."""
        if not isinstance(request, VoteRequest) or not self._is_current(request):
            return
        if request.to not in self._granted | self._refused:
            self._failed_requests.add(request.to)
            self._retry_ms = now_ms + self._timeouts.retry_backoff_ms

    def _retry_vote_requests(self) -> None:
        failed, self._failed_requests = self._failed_requests, set()
        for voter_id in sorted(failed):
            self._send(self._vote_request(voter_id, pre_vote=self.role is Role.PROSPECTIVE))

    def _is_current(self, request: VoteRequest) -> bool:
        role = Role.PROSPECTIVE if request.pre_vote else Role.CANDIDATE
        return self.role is role and request.epoch == self.epoch

    def on_vote_request(self, request: VoteRequest, now_ms: int) -> None:
        """Decide on a vote; the response is among the messages, after the state that it reports."""
        error = vote_error(request, self.epoch)
        if error is ErrorCode.NONE and request.epoch > self.epoch:
            self._join_epoch(request.epoch, None, now_ms)
        if error is ErrorCode.NONE and not self._is_addressed(request.voter):
            error = ErrorCode.INVALID_VOTER_KEY
        granted = error is ErrorCode.NONE and self._grants(request)
        if granted and not request.pre_vote:
            if self.state.voted is None:
                self._set_state(QuorumState(self.epoch, None, request.candidate))
            self._deadline_ms = now_ms + self._election_timeout()
        voter_id, leader_id = self.local.key.id, self.leader_id
        self._send(VoteResponse(request, voter_id, self.epoch, leader_id, granted, error))

    def _is_addressed(self, voter: ReplicaKey | None) -> bool:
        """True when a request is for this replica; without a voter or directory it may be."""
        if voter is None:
            return True
        return voter.id == self.local.key.id and voter.directory_id in (
            ZERO_UUID,
            self.local.key.directory_id,
        )

    def _grants(self, request: VoteRequest) -> bool:
        mine = (self.log.last_epoch, self.log.end_offset)
        if (request.last_epoch, request.end_offset) < mine:
            return False
        if request.pre_vote:
            # A follower that has fetched has a leader and does not help to depose it (KIP-996).
            following = self.role is Role.FOLLOWER and self._has_fetched
            return self.role is not Role.LEADER and not following
        # The leader in the state counts, also one that resigned or restarted.
        if self.state.leader_id is not None:
            return False
        return self.state.may_vote_for(request.candidate)

    def on_vote_response(self, response: VoteResponse, now_ms: int) -> None:
        """Count a vote; a majority makes this replica campaign, or lead."""
        if self._learn_epoch(response.epoch, response.leader_id, now_ms):
            return
        if not self._is_current(response.request):
            return
        (self._granted if response.granted else self._refused).add(response.voter_id)
        self._failed_requests.discard(response.voter_id)
        self._count_votes(now_ms)
        if self._asks_again and not response.granted:
            # The voter may not know yet that the leader is gone, or it voted for itself.
            lost_ms = self._timeouts.lost_ms(self._elections, self._random)
            self._deadline_ms = min(self._deadline_ms, now_ms + lost_ms)

    def _count_votes(self, now_ms: int) -> None:
        if len(self._granted) >= self.voters.majority:
            if self.role is Role.PROSPECTIVE:
                self._campaign(now_ms)
            else:
                self._lead(now_ms)
        elif len(self._refused) > len(self.voters) - self.voters.majority:
            self._lose(now_ms)

    def _lose(self, now_ms: int) -> None:
        """Wait before the next attempt, so that another replica can win or the leader be found."""
        self._failed_requests = set()
        if self.role is Role.CANDIDATE:
            self._deadline_ms = now_ms + self._timeouts.lost_ms(self._elections, self._random)
        elif self.leader_id is not None:
            self._follow(now_ms)
        else:
            self.role = Role.UNATTACHED
            self._deadline_ms = now_ms + self._election_timeout()

    @property
    def _asks_again(self) -> bool:
        return self._is_leader_gone and self._elections < _PRE_VOTES_MAX

    def on_leader_unreachable(self, now_ms: int) -> None:
        """The leader's process has ended: its connection was reset, and new ones are refused.

        The survivors notice this at the same instant; they campaign one after the other, in the
        order of their ids, so that the votes are not split.
        """
        if self.role is not Role.FOLLOWER or not self._may_campaign or self._is_leader_gone:
            return
        self._is_leader_gone = True
        self._has_fetched = False  # it may grant pre-votes of the others
        self._deadline_ms = min(self._deadline_ms, now_ms + self._turn_ms())

    def _turn_ms(self) -> int:
        """Return a random delay in ms that grows with the position among the other voters."""
        ids = [key.id for key in self.voters.replica_keys if key.id != self.state.leader_id]
        position = ids.index(self.local.key.id) if self.local.key.id in ids else len(ids)
        return position * _SUCCESSION_STEP_MS + self._random(_SUCCESSION_STEP_MS)

    # Leading

    def _lead(self, now_ms: int) -> None:
        self.role = Role.LEADER
        self._elections = 0
        self._failed_requests = set()
        self._set_state(QuorumState(epoch=self.epoch, leader_id=self.local.key.id))
        self.epoch_start_offset = self.log.end_offset
        self._progress = QuorumProgress(self.local.key, self.voters.replica_keys, now_ms)
        self._deadline_ms = now_ms + self._timeouts.majority_ms
        self._ready.leadership = (self.local.key.id, self.epoch)
        change = leader_change(self.local.key.id, self.voters, self._granted)
        control = (change, *self._voters_to_state())
        self._append(Entry(self.log.end_offset, self.epoch, now_ms, control=control))
        self._announce(now_ms)

    def _announce(self, now_ms: int) -> None:
        """Announce the leader to the voters that have not fetched for half a fetch timeout."""
        period = self._timeouts.fetch_ms // 2
        self._begin_epoch_ms = now_ms + period
        for voter_id in self._progress.silent(self.voters, now_ms - period):
            voter = self.voters.voters[voter_id].key
            self._send(BeginQuorumEpoch(voter_id, self.epoch, self.local.key.id, voter))

    def propose(self, records: Sequence[bytes], now_ms: int) -> Entry:
        """Append one batch of metadata records.

        The batch is committed when `high_watermark` reaches the entry's `next_offset` while this
        replica leads the entry's epoch.
        Raises KafkaError (NOT_CONTROLLER) when this replica does not lead.
        """
        self._require_leadership()
        return self._append(Entry(self.log.end_offset, self.epoch, now_ms, tuple(records)))

    def upgrade_kraft_version(self, version: int, voters: VoterSet, now_ms: int) -> Entry:
        """Append a higher kraft.version, and the voters, which the log states from then on.

        Raises KafkaError (NOT_CONTROLLER) when this replica does not lead.
        Source: `LeaderState.maybeAppendUpgradedKRaftVersion`.
        """
        self._require_leadership()
        self.kraft_version = version
        record = KRaftVersionRecord(kraft_version=version)
        return self._append_voters(voters, (record, voters.record()), now_ms)

    def change_voters(self, voters: VoterSet, now_ms: int) -> Entry:
        """Append a set of voters, which counts at once (`voter_changes` has the checks).

        Raises KafkaError (NOT_CONTROLLER) when this replica does not lead.
        """
        self._require_leadership()
        return self._append_voters(voters, (voters.record(),), now_ms)

    def _append_voters(self, voters: VoterSet, control: tuple[Message, ...], now_ms: int) -> Entry:
        self._previous_voters, self.voters = self.voters, voters
        self.voters_offset = self.log.end_offset + len(control) - 1
        self._progress.follow(voters, now_ms)
        self._extend_deadline()
        return self._append(Entry(self.log.end_offset, self.epoch, now_ms, control=control))

    def _require_leadership(self) -> None:
        if self.role is not Role.LEADER:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The active controller is another node")

    def on_flushed(self, end_offset: int) -> None:
        """All of the local log below `end_offset` is durable."""
        if self.role is Role.LEADER:
            mine = self._progress.of_voter(self.local.key.id)
            mine.end_offset = max(mine.end_offset, end_offset)
            self._advance_high_watermark()

    def resign(self, now_ms: int) -> None:
        """Stop leading, for a shutdown or because no majority fetches."""
        if self.role is not Role.LEADER:
            return
        self.role = Role.RESIGNED
        self._deadline_ms = now_ms + self._election_timeout()
        successors = tuple(self._progress.successors(self.voters))
        for voter in successors:
            self._send(EndQuorumEpoch(voter.id, self.epoch, self.local.key.id, successors))
        self._ready.leadership = (None, self.epoch)

    def on_fetch(self, request: FetchRequest, now_ms: int) -> FetchResponse:
        """Answer a fetch; the replica's log below the fetch offset is durable there.

        Only a request that needs neither truncation nor a snapshot counts as progress.
        """
        error = fetch_error(request, self.epoch, is_leader=self.is_leader)
        if error is not ErrorCode.NONE:
            return FetchResponse(self.epoch, self.leader_id, error)
        reply = FetchResponse(self.epoch, self.leader_id, high_watermark=self.leader_high_watermark)
        if needs_snapshot(request, self.log.log_start):
            self._note_contact(request.replica, now_ms)
            return attrs.evolve(reply, snapshot=self.log.log_start)
        end = self.log.end_of(request.last_epoch)
        is_empty = request.offset == 0 and request.last_epoch == 0
        if not is_empty and (end.epoch != request.last_epoch or end.offset < request.offset):
            self._note_contact(request.replica, now_ms)
            return attrs.evolve(reply, diverging=end)
        self._note_progress(request, now_ms)
        return FetchResponse(self.epoch, self.leader_id, high_watermark=self.leader_high_watermark)

    def on_fetch_snapshot(self, replica: ReplicaKey, epoch: int, now_ms: int) -> ErrorCode:
        """Check a request for a snapshot; like a fetch it shows that the replica is alive."""
        error = leader_only_error(epoch, self.epoch, is_leader=self.is_leader)
        if error is ErrorCode.NONE:
            self._note_contact(replica, now_ms)
        return error

    def _note_contact(self, replica: ReplicaKey, now_ms: int) -> None:
        """Count the contact with a voter towards the majority that keeps this leader."""
        if self.voters.is_voter(replica):
            self._progress.of_voter(replica.id).fetched_ms = now_ms
            self._extend_deadline()

    def _note_progress(self, request: FetchRequest, now_ms: int) -> None:
        end_offset = self.log.end_offset
        if not self.voters.is_voter(request.replica):
            if request.replica.id >= 0:  # otherwise a consumer
                observer = self._progress.of_observer(request.replica)
                observer.fetched(request.offset, end_offset, now_ms)
            return
        progress = self._progress.of_voter(request.replica.id)
        progress.fetched(request.offset, end_offset, now_ms)
        self._extend_deadline()
        self._advance_high_watermark()

    def _extend_deadline(self) -> None:
        """Set the deadline by the latest fetches that make a majority with this replica."""
        if not self._is_single_voter:
            fetched_ms = self._progress.majority_fetched_ms(self.voters)
            self._deadline_ms = fetched_ms + self._timeouts.majority_ms

    def _advance_high_watermark(self) -> None:
        """Commit what a majority has durably, once that includes a record of this epoch."""
        reached = self._progress.majority_end_offset(self.voters)
        if reached > self.epoch_start_offset:
            self._raise_high_watermark(reached)

    # Following

    def _follow(self, now_ms: int) -> None:
        """Fetch from the leader of the epoch."""
        self.role = Role.FOLLOWER
        self._has_fetched = self._is_leader_gone = False
        self.snapshot_in_progress = None
        self._deadline_ms = now_ms + self._timeouts.fetch_ms

    def on_begin_quorum_epoch(self, request: BeginQuorumEpoch, now_ms: int) -> ErrorCode:
        """A leader announces itself; return the error to answer."""
        error = announcement_error(request, self.epoch)
        if error is ErrorCode.NONE:
            self._learn_epoch(request.epoch, request.leader_id, now_ms)
            if not self._is_addressed(request.voter):
                return ErrorCode.INVALID_VOTER_KEY
        return error

    def on_end_quorum_epoch(self, request: EndQuorumEpoch, now_ms: int) -> ErrorCode:
        """The leader resigned: campaign after a delay by the position among its successors.

        Return the error to answer. Source: `KafkaRaftClient.endEpochElectionBackoff`.
        """
        error = announcement_error(request, self.epoch)
        if error is ErrorCode.NONE:
            self._learn_epoch(request.epoch, request.leader_id, now_ms)
            if self.role is Role.FOLLOWER and self._may_campaign:
                self._has_fetched = False  # the leader is gone, so pre-votes may be granted
                self._deadline_ms = now_ms + self._timeouts.succession_ms(
                    request.preferred, self.local.key.id
                )
        return error

    def fetch_request(self) -> FetchRequest | None:
        """Return the next fetch; None while this replica does not fetch.

        Without a known leader, the fetch goes to a bootstrap server, whose response names one.
        """
        if self.role is Role.FOLLOWER and self.snapshot_in_progress is None:
            to = self.leader_id
        elif self.role is Role.UNATTACHED:
            to = None
        else:
            return None
        return FetchRequest(
            to, self.epoch, self.local.key, self.log.end_offset, self.log.last_epoch
        )

    def on_fetch_response(self, response: FetchResponse, now_ms: int) -> bool:
        """Handle a fetch response; return True when its records may be appended.

        After appending and fsyncing them, call `on_appended`, then fetch again.
        Raises QuorumDataLossError when the leader's log ends below the high watermark.
        """
        if self._learn_epoch(response.epoch, response.leader_id, now_ms):
            return False
        if self.role is not Role.FOLLOWER or response.epoch != self.epoch:
            return False
        if response.error is not ErrorCode.NONE:
            return False
        self._deadline_ms = now_ms + self._timeouts.fetch_ms
        self._elections, self._has_fetched, self._is_leader_gone = 0, True, False
        if response.snapshot is not None:
            self.snapshot_in_progress = self._ready.fetch_snapshot = response.snapshot
            return False
        if response.diverging is not None:
            self._truncate(response.diverging)
            return False
        self._raise_high_watermark(min(response.high_watermark, self.log.end_offset))
        return True

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        """Truncate to the end of the largest epoch that both logs have."""
        own = self.log.end_of(diverging.epoch)
        end_offset = own.offset
        if own.epoch == diverging.epoch:
            end_offset = min(end_offset, diverging.offset)
        if end_offset < self.high_watermark:
            raise QuorumDataLossError(
                f"the log of leader {self.leader_id} in epoch {self.epoch} diverges at offset "
                f"{end_offset}, below the high watermark {self.high_watermark} of this replica"
            )
        self.log.truncate(end_offset)
        self._ready.truncate_to = end_offset

    def use_voters(self, stated: StatedVoters) -> None:
        """Follow the voters that the log states; they count before they are committed."""
        self.voters, self.kraft_version, self.voters_offset, self._previous_voters = stated

    def on_appended(self, batches: Iterable[tuple[int, int, int]], high_watermark: int) -> None:
        """Fetched batches (epoch, base offset, next offset) are in the log, and durable."""
        for epoch, base_offset, next_offset in batches:
            self.log.extend(epoch, base_offset, next_offset)
        self._raise_high_watermark(min(high_watermark, self.log.end_offset))

    def on_snapshot_installed(self, snapshot: OffsetAndEpoch, stated: StatedVoters) -> None:
        """The snapshot of the leader is durable, and replaces the whole log."""
        self.log.truncate_to_snapshot(snapshot)
        self.use_voters(stated)
        self.snapshot_in_progress = None
        self._raise_high_watermark(snapshot.offset)

    def on_snapshot_failed(self) -> None:
        """The download failed, for example with SNAPSHOT_NOT_FOUND: fetch again."""
        self.snapshot_in_progress = None

    def on_snapshot_chunk(self, now_ms: int) -> None:
        """A part of the snapshot came: the leader is alive."""
        if self.role is Role.FOLLOWER:
            self._deadline_ms = now_ms + self._timeouts.fetch_ms

    # Epochs

    def on_epoch(self, epoch: int, leader_id: int | None, now_ms: int) -> None:
        """A response that has no further effect names an epoch and its leader."""
        self._learn_epoch(epoch, leader_id, now_ms)

    def _learn_epoch(self, epoch: int, leader_id: int | None, now_ms: int) -> bool:
        """Return True when an epoch or leader that another replica names changes this role."""
        if leader_id == self.local.key.id:
            leader_id = None  # a stale claim: this replica knows whether it leads
        if epoch < self.epoch or (epoch == self.epoch and leader_id == self.state.leader_id):
            return False
        if epoch == self.epoch and (leader_id is None or self.state.leader_id is not None):
            return False
        self._join_epoch(epoch, leader_id, now_ms)
        return True

    def _join_epoch(self, epoch: int, leader_id: int | None, now_ms: int) -> None:
        """Become a follower of the epoch's leader, or unattached while the leader is unknown."""
        was_leader = self.role is Role.LEADER
        voted = self.state.voted if epoch == self.epoch else None
        self._failed_requests = set()
        self._set_state(QuorumState(epoch, leader_id, voted))
        if leader_id is None:
            self.role = Role.UNATTACHED
            self._deadline_ms = now_ms + self._election_timeout()
        else:
            self._follow(now_ms)
        if was_leader or leader_id is not None:
            self._ready.leadership = (leader_id, epoch)

    def _leave_epoch(self, now_ms: int) -> None:
        """Become unattached in the next epoch: a former leader must not vote in its own epoch.

        Source: `KafkaRaftClient.pollResigned`.
        """
        self._join_epoch(self.epoch + 1, None, now_ms)

    def _set_state(self, state: QuorumState) -> None:
        self.state = state
        self._ready.quorum_state = state

    def _send(self, message: Outgoing) -> None:
        self._ready.messages.append(message)

    # The log

    def _append(self, entry: Entry) -> Entry:
        self._ready.entries.append(entry)
        self.log.extend(entry.epoch, entry.base_offset, entry.next_offset)
        return entry

    def _raise_high_watermark(self, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._ready.high_watermark = offset

    def _voters_to_state(self) -> tuple[Message, ...]:
        """Return the records of voters that are not in the log, or whose leader has moved."""
        if self.kraft_version == 0:
            return ()
        moved = self.voters.voters.get(self.local.key.id, self.local) != self.local
        if self.voters_offset != BOOTSTRAP_VOTERS_OFFSET and not moved:
            return ()
        self.voters = VoterSet({**self.voters.voters, self.local.key.id: self.local})
        self.voters_offset = self.log.end_offset + 2  # after the leader change and the version
        return KRaftVersionRecord(kraft_version=self.kraft_version), self.voters.record()
