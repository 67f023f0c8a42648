"""The Raft core of the quorum in KRaft's terms, without input or output.

`on_*` and `tick` take events and `now_ms`; `take_ready` returns what has to be done about them, and
in which order. The log's end, its epochs and the high watermark are kept here; the shell owns the
files. KRaft differs from the Raft paper in that followers pull (Fetch), so a leader learns how far
they are from what they ask for (KIP-595); a vote names a replica's directory (KIP-853), and who
would not win an election does not disturb the leader with one (pre-votes, KIP-996).
"""

import enum
from collections.abc import Callable, Iterable, Sequence

import attrs

from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    EpochHistory,
    FetchRequest,
    FetchResponse,
    Outgoing,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.voters import Voter, VoterSet
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.control_records import KRaftVersionRecord, LeaderChangeMessage

# The voters came with the bootstrap snapshot and are not in the log yet.
BOOTSTRAP_VOTERS_OFFSET = -1


class Role(enum.Enum):
    """What a replica of the quorum is in its epoch."""

    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


@attrs.frozen(slots=True)
class Timeouts:
    """Milliseconds, of controller.quorum.*: an election's, a follower's patience, back-off."""

    election_ms: int = 1000
    fetch_ms: int = 2000
    backoff_max_ms: int = 1000
    begin_epoch_ms: int = 500


@attrs.frozen(slots=True)
class Entry:
    """One batch for the log; it takes the offsets from `base_offset` on.

    `records` are encoded metadata records, or `control` the messages of a control batch.
    """

    base_offset: int
    epoch: int
    timestamp_ms: int
    records: tuple[bytes, ...] = ()
    control: tuple[Message, ...] = ()

    @property
    def next_offset(self) -> int:
        """The first offset behind it."""
        return self.base_offset + len(self.records) + len(self.control)


@attrs.define(slots=True)
class Ready:
    """What the shell has to do, in the order of the fields.

    quorum_state    write and fsync it before anything below: a vote or an epoch that was answered
                    or appended in must not be forgotten
    truncate_to     cut the log there
    entries         append them; fsync when it suits, then tell `on_flushed`
    messages        send them
    leadership      the leader (None: unknown) and the epoch that changed
    high_watermark  rose to this; all below is committed
    """

    quorum_state: QuorumState | None = None
    truncate_to: int | None = None
    entries: list[Entry] = attrs.field(factory=list[Entry])
    messages: list[Outgoing] = attrs.field(factory=list[Outgoing])
    leadership: tuple[int | None, int] | None = None
    high_watermark: int | None = None


@attrs.define(slots=True)
class _Progress:
    """What a leader knows of a voter: its durable log end, and when it last fetched."""

    end_offset: int = -1
    fetched_ms: int = -1


class RaftCore:
    """One replica of the quorum's log.

    `log` describes the log as found (all of it durable); `voters_offset` is where it states
    `voters`, -1 if only the bootstrap snapshot does. `random(n)` gives a number below n.
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
        self.state = state
        self.log = log
        self.role = Role.UNATTACHED
        self.high_watermark = 0
        self.epoch_start_offset = -1
        self._timeouts = timeouts
        self._random = random
        self._deadline_ms = 0
        self._begin_epoch_ms = 0
        self._granted: set[int] = set()
        self._refused: set[int] = set()
        self._progress: dict[int, _Progress] = {}
        self._elections = 0
        self._has_fetched = False  # from the leader that it follows
        self._ready = Ready()
        if log.last_epoch > state.epoch:
            # The log saw a leader of this epoch; so did we, though the file was lost.
            self._set_state(QuorumState(epoch=log.last_epoch))

    # What it is

    @property
    def epoch(self) -> int:
        """The latest epoch this replica knows of."""
        return self.state.epoch

    @property
    def leader_id(self) -> int | None:
        """The epoch's leader, if known."""
        return self.state.leader_id

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads its epoch."""
        return self.role is Role.LEADER

    @property
    def is_voter(self) -> bool:
        """Whether this replica may vote and lead."""
        return self.voters.is_voter(self.local.key)

    @property
    def log_end_offset(self) -> int:
        """Where the next record will stand."""
        return self.log.end_offset

    def replica_end_offset(self, voter_id: int) -> int:
        """How far a voter's log is known to reach; -1 if unknown."""
        if voter_id == self.local.key.id:
            return self.log.end_offset
        return self._progress.get(voter_id, _Progress()).end_offset

    def wakeup_ms(self) -> int | None:
        """When `tick` is due next; None if time changes nothing."""
        if self.role is Role.LEADER:
            others = len(self.voters) > 1
            return min(self._deadline_ms, self._begin_epoch_ms) if others else None
        return self._deadline_ms if self.is_voter else None

    def take_ready(self) -> Ready:
        """What there is to do since the last call."""
        ready, self._ready = self._ready, Ready()
        return ready

    # Time

    def start(self, now_ms: int) -> None:
        """Begin: an only voter waits for nobody and elects itself; others look for a leader."""
        if len(self.voters) == 1 and self.is_voter:
            self._campaign(now_ms)
            return
        if self.state.leader_id == self.local.key.id:
            # It led this epoch before it stopped: what it appended last may not have got through.
            self._set_state(QuorumState(epoch=self.epoch))
        if self.state.leader_id is None:
            self._deadline_ms = now_ms + self._election_timeout()
        else:
            self._follow(now_ms)

    def tick(self, now_ms: int) -> None:
        """Do what is due: elections, giving up on a lost leader or a lost majority."""
        if self.role is Role.LEADER:
            self._tick_leader(now_ms)
        elif now_ms >= self._deadline_ms and self.is_voter:
            self._prospect(now_ms)

    def _tick_leader(self, now_ms: int) -> None:
        if len(self.voters) == 1:
            return
        if now_ms >= self._deadline_ms:
            self.resign(now_ms)
        elif now_ms >= self._begin_epoch_ms:
            self._begin_epoch_ms = now_ms + self._timeouts.begin_epoch_ms
            self._announce()

    def _election_timeout(self) -> int:
        """Random, and longer after each election that nobody won."""
        spread = self._timeouts.election_ms
        backoff = min(self._timeouts.backoff_max_ms, 50 * (1 << min(self._elections, 10)))
        return spread + self._random(spread) + (self._random(backoff) if self._elections else 0)

    # Elections

    def _prospect(self, now_ms: int) -> None:
        """Ask who would vote, without an epoch of its own yet; a leader may still be there."""
        self.role = Role.PROSPECTIVE
        self._ask_for_votes(now_ms, pre_vote=True)

    def _campaign(self, now_ms: int) -> None:
        """Ask for votes in the next epoch, beginning with one's own."""
        self.role = Role.CANDIDATE
        self._set_state(QuorumState(epoch=self.epoch + 1, voted=self.local.key))
        self._ask_for_votes(now_ms, pre_vote=False)

    def _ask_for_votes(self, now_ms: int, *, pre_vote: bool) -> None:
        self._elections += 1
        self._granted, self._refused = {self.local.key.id}, set()
        self._deadline_ms = now_ms + self._election_timeout()
        for voter in self.voters:
            if voter.key.id != self.local.key.id:
                self._ready.messages.append(
                    VoteRequest(
                        to=voter.key.id,
                        epoch=self.epoch,
                        candidate=self.local.key,
                        last_epoch=self.log.last_epoch,
                        end_offset=self.log.end_offset,
                        pre_vote=pre_vote,
                    )
                )
        self._count_votes(now_ms)

    def on_vote_request(self, request: VoteRequest, now_ms: int) -> None:
        """Judge a candidate; the answer is among the messages, behind the state that it tells."""
        if request.epoch > self.epoch:
            self._join_epoch(request.epoch, None, now_ms)
        granted = request.epoch == self.epoch and self._grants(request)
        if granted and not request.pre_vote:
            if self.state.voted is None:
                self._set_state(QuorumState(self.epoch, None, request.candidate))
            self._deadline_ms = now_ms + self._election_timeout()
        self._ready.messages.append(
            VoteResponse(request, self.local.key.id, self.epoch, self.leader_id, granted)
        )

    def _grants(self, request: VoteRequest) -> bool:
        mine = (self.log.last_epoch, self.log.end_offset)
        if (request.last_epoch, request.end_offset) < mine:
            return False
        if request.pre_vote:
            # A follower that has fetched has a leader; it would not depose it (KIP-996).
            following = self.role is Role.FOLLOWER and self._has_fetched
            return self.role is not Role.LEADER and not following
        if self.leader_id is not None:
            return False
        voted = self.state.voted
        return voted is None or voted == request.candidate

    def on_vote_response(self, response: VoteResponse, now_ms: int) -> None:
        """Count a vote; the majority's makes this replica campaign, or lead."""
        if self._learn_epoch(response.epoch, response.leader_id, now_ms):
            return
        request = response.request
        asking = Role.PROSPECTIVE if request.pre_vote else Role.CANDIDATE
        if self.role is not asking or request.epoch != self.epoch:
            return
        (self._granted if response.granted else self._refused).add(response.voter_id)
        self._count_votes(now_ms)

    def _count_votes(self, now_ms: int) -> None:
        if len(self._granted) >= self.voters.majority:
            if self.role is Role.PROSPECTIVE:
                self._campaign(now_ms)
            else:
                self._lead(now_ms)
        elif len(self._refused) > len(self.voters) - self.voters.majority:
            self._lose(now_ms)

    def _lose(self, now_ms: int) -> None:
        """Wait before the next attempt, so that somebody else may win, or the leader be found."""
        if self.role is Role.PROSPECTIVE and self.leader_id is not None:
            self._follow(now_ms)
        else:
            self._deadline_ms = now_ms + self._election_timeout()

    def _follow(self, now_ms: int) -> None:
        """Fetch from the epoch's leader."""
        self.role = Role.FOLLOWER
        self._has_fetched = False
        self._deadline_ms = (
            now_ms + self._timeouts.fetch_ms + self._random(self._timeouts.election_ms)
        )

    # Leading

    def _lead(self, now_ms: int) -> None:
        self.role = Role.LEADER
        self._elections = 0
        self._set_state(QuorumState(epoch=self.epoch, leader_id=self.local.key.id))
        self.epoch_start_offset = self.log.end_offset
        self._progress = {
            voter.key.id: _Progress(fetched_ms=now_ms)
            for voter in self.voters
            if voter.key.id != self.local.key.id
        }
        self._deadline_ms = now_ms + self._majority_timeout()
        self._begin_epoch_ms = now_ms + self._timeouts.begin_epoch_ms
        self._ready.leadership = (self.local.key.id, self.epoch)
        control = (self._leader_change(), *self._voters_to_state())
        self._append(Entry(self.log.end_offset, self.epoch, now_ms, control=control))
        self._announce()

    def _majority_timeout(self) -> int:
        """A leader that a majority has not asked for so long is not one (KAFKA-15489)."""
        return self._timeouts.fetch_ms * 3 // 2

    def _announce(self) -> None:
        """Tell the voters that have not fetched from it yet."""
        for voter_id, progress in self._progress.items():
            if progress.end_offset < 0:
                self._ready.messages.append(
                    BeginQuorumEpoch(voter_id, self.epoch, self.local.key.id)
                )

    def propose(self, records: Sequence[bytes], now_ms: int) -> Entry:
        """Append one batch of metadata records; NOT_CONTROLLER unless this replica leads.

        The batch is committed when `high_watermark` reaches the entry's `next_offset`.
        """
        if self.role is not Role.LEADER:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The active controller is another node")
        return self._append(Entry(self.log.end_offset, self.epoch, now_ms, tuple(records)))

    def upgrade_kraft_version(self, version: int, now_ms: int) -> Entry:
        """State a higher kraft.version, and the voters, which stand in the log from then on.

        NOT_CONTROLLER unless this replica leads. As `LeaderState#maybeAppendUpgradedKRaftVersion`.
        """
        if self.role is not Role.LEADER:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The active controller is another node")
        self.kraft_version, self.voters_offset = version, self.log.end_offset + 1
        control = (KRaftVersionRecord(kraft_version=version), self.voters.record())
        return self._append(Entry(self.log.end_offset, self.epoch, now_ms, control=control))

    def on_flushed(self, end_offset: int) -> None:
        """All of the local log below `end_offset` is durable."""
        if self.role is Role.LEADER:
            mine = self._progress.setdefault(self.local.key.id, _Progress())
            mine.end_offset = max(mine.end_offset, end_offset)
            self._advance_high_watermark()

    def resign(self, now_ms: int) -> None:
        """Stop leading: on the way out, or because a majority is out of reach."""
        if self.role is not Role.LEADER:
            return
        self.role = Role.RESIGNED
        self._deadline_ms = now_ms + self._election_timeout()
        others = [voter_id for voter_id in self._progress if voter_id != self.local.key.id]
        others.sort(key=lambda voter_id: -self._progress[voter_id].end_offset)
        for voter_id in others:
            self._ready.messages.append(
                EndQuorumEpoch(voter_id, self.epoch, self.local.key.id, tuple(others))
            )
        self._ready.leadership = (None, self.epoch)

    def on_fetch(self, request: FetchRequest, now_ms: int) -> FetchResponse:
        """Take note of how far a follower is; its log below `offset` is durable there."""
        if request.epoch > self.epoch:
            self._join_epoch(request.epoch, None, now_ms)
        if self.role is not Role.LEADER or request.epoch != self.epoch:
            return FetchResponse(self.epoch, self.leader_id, False, -1)
        end = self.log.end_of(request.last_epoch)
        is_empty = request.offset == 0 and request.last_epoch == 0
        if not is_empty and (end[0] != request.last_epoch or end[1] < request.offset):
            return FetchResponse(
                self.epoch, self.leader_id, True, self.high_watermark, diverging=end
            )
        progress = self._progress.get(request.replica.id)
        if progress is not None and self.voters.is_voter(request.replica):
            progress.fetched_ms = now_ms
            progress.end_offset = request.offset
            self._extend_deadline()
            self._advance_high_watermark()
        return FetchResponse(self.epoch, self.leader_id, True, self.high_watermark)

    def _extend_deadline(self) -> None:
        """Count from when the last voter that makes a majority fetched."""
        fetched = sorted(
            (p.fetched_ms for i, p in self._progress.items() if i != self.local.key.id),
            reverse=True,
        )
        self._deadline_ms = fetched[self.voters.majority - 2] + self._majority_timeout()

    def _advance_high_watermark(self) -> None:
        """What a majority has durably is committed, once that reaches into the leader's epoch."""
        ends = sorted(
            (self._progress.get(voter.key.id, _Progress()).end_offset for voter in self.voters),
            reverse=True,
        )
        reached = ends[self.voters.majority - 1]
        if reached > self.epoch_start_offset:
            self._raise_high_watermark(reached)

    # Following

    def on_begin_quorum_epoch(self, request: BeginQuorumEpoch, now_ms: int) -> None:
        """Somebody leads an epoch."""
        self._learn_epoch(request.epoch, request.leader_id, now_ms)

    def on_end_quorum_epoch(self, request: EndQuorumEpoch, now_ms: int) -> None:
        """The leader resigned: elect soon, the sooner the further up one stands in its list."""
        self._learn_epoch(request.epoch, request.leader_id, now_ms)
        if request.epoch != self.epoch or self.role is not Role.FOLLOWER or not self.is_voter:
            return
        if self.local.key.id in request.preferred:
            place = request.preferred.index(self.local.key.id)
            self._deadline_ms = now_ms + place * self._timeouts.election_ms // 4
        else:
            self._deadline_ms = now_ms + self._election_timeout()

    def fetch_request(self) -> FetchRequest | None:
        """What to ask the leader; None while there is nobody to ask."""
        if self.role is not Role.FOLLOWER or self.leader_id is None:
            return None
        return FetchRequest(
            self.leader_id, self.epoch, self.local.key, self.log.end_offset, self.log.last_epoch
        )

    def on_fetch_response(self, response: FetchResponse, now_ms: int) -> bool:
        """Take the leader's answer; gives whether the records that came with it may be appended.

        After appending and fsyncing them, tell `on_appended`, then fetch again.
        """
        if self._learn_epoch(response.epoch, response.leader_id, now_ms):
            return False
        if self.role is not Role.FOLLOWER or not response.is_leader:
            return False
        if response.epoch != self.epoch:
            return False
        self._deadline_ms = (
            now_ms + self._timeouts.fetch_ms + self._random(self._timeouts.election_ms)
        )
        self._elections, self._has_fetched = 0, True
        if response.diverging is None:
            self._raise_high_watermark(min(response.high_watermark, self.log.end_offset))
            return True
        epoch, end_offset = response.diverging
        end_offset = min(end_offset, self.log.end_of(epoch)[1])
        self.log.truncate(end_offset)
        self._ready.truncate_to = end_offset
        return False

    def on_appended(self, batches: Iterable[tuple[int, int, int]], high_watermark: int) -> None:
        """Batches (epoch, base offset, next offset) of the leader are in the log, and durable."""
        for epoch, base_offset, next_offset in batches:
            self.log.extend(epoch, base_offset, next_offset)
        self._raise_high_watermark(min(high_watermark, self.log.end_offset))

    # Epochs

    def _learn_epoch(self, epoch: int, leader_id: int | None, now_ms: int) -> bool:
        """Whether somebody's epoch or leader made this replica change what it is."""
        if epoch < self.epoch or (epoch == self.epoch and leader_id == self.leader_id):
            return False
        if epoch == self.epoch and (leader_id is None or self.leader_id is not None):
            return False
        self._join_epoch(epoch, leader_id, now_ms)
        return True

    def _join_epoch(self, epoch: int, leader_id: int | None, now_ms: int) -> None:
        """Leave what one was for an epoch's follower, or for waiting who leads it."""
        led = self.role is Role.LEADER
        if leader_id == self.local.key.id:
            leader_id = None
        voted = self.state.voted if epoch == self.epoch else None
        self._set_state(QuorumState(epoch, leader_id, voted))
        if leader_id is None:
            self.role = Role.UNATTACHED
            self._deadline_ms = now_ms + self._election_timeout()
        else:
            self._follow(now_ms)
        if led or leader_id is not None:
            self._ready.leadership = (leader_id, epoch)

    def _set_state(self, state: QuorumState) -> None:
        self.state = state
        self._ready.quorum_state = state

    # The log

    def _append(self, entry: Entry) -> Entry:
        self._ready.entries.append(entry)
        self.log.extend(entry.epoch, entry.base_offset, entry.next_offset)
        return entry

    def _raise_high_watermark(self, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._ready.high_watermark = offset

    def _leader_change(self) -> LeaderChangeMessage:
        """The record that opens an epoch; version 0 as Kafka 4.3 writes it, without directories."""
        voter = LeaderChangeMessage.Voter
        return LeaderChangeMessage(
            leader_id=self.local.key.id,
            voters=[voter(voter_id=key.id) for key in self.voters.replica_keys],
            granting_voters=[voter(voter_id=voter_id) for voter_id in sorted(self._granted)],
        )

    def _voters_to_state(self) -> list[Message]:
        """Voters that only the bootstrap snapshot names, or whose leader has moved, go to the log.

        As `LeaderState#appendStartOfEpochControlRecords` in Kafka.
        """
        if self.kraft_version == 0:
            return []
        moved = self.voters.voters[self.local.key.id] != self.local
        if self.voters_offset != BOOTSTRAP_VOTERS_OFFSET and not moved:
            return []
        self.voters = VoterSet({**self.voters.voters, self.local.key.id: self.local})
        return [KRaftVersionRecord(kraft_version=self.kraft_version), self.voters.record()]
