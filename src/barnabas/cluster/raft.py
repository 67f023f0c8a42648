"""The Raft core of the quorum in KRaft's terms, without input or output.

`step`-like methods take an event and `now_ms`; `take_ready` returns what has to be done about it,
and in which order. The leader's log end, epochs and high watermark are kept here; the shell owns
the files. KRaft differs from the Raft paper in that followers pull (Fetch), so a leader learns how
far they are from what they ask for (KIP-595); a vote names a replica's directory (KIP-853).
"""

import enum
from collections.abc import Sequence

import attrs

from barnabas.cluster.quorum_state import QuorumState
from barnabas.cluster.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage

# The voters came with the bootstrap snapshot and are not in the log yet.
BOOTSTRAP_VOTERS_OFFSET = -1


class Role(enum.Enum):
    """What a replica of the quorum is in its epoch."""

    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


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
    entries         append them; fsync when it suits, then tell `flushed`
    leadership      the leader (None: unknown) and the epoch that changed
    high_watermark  rose to this; all below is committed
    """

    quorum_state: QuorumState | None = None
    entries: list[Entry] = attrs.field(factory=list[Entry])
    leadership: tuple[int | None, int] | None = None
    high_watermark: int | None = None


class RaftCore:
    """One replica of the quorum's log.

    `log_end_offset` and `last_epoch` describe the log as found (all of it durable).
    `voters_offset` is where the log states `voters`, -1 if only the bootstrap snapshot does.
    """

    def __init__(
        self,
        *,
        local: Voter,
        voters: VoterSet,
        voters_offset: int,
        kraft_version: int,
        state: QuorumState,
        log_end_offset: int,
        last_epoch: int,
    ) -> None:
        self.local = local
        self.voters = voters
        self.voters_offset = voters_offset
        self.kraft_version = kraft_version
        self.role = Role.UNATTACHED
        self.state = state
        self.high_watermark = 0
        self.epoch_start_offset = -1
        self.log_end_offset = log_end_offset
        self.flushed_offset = log_end_offset
        self.last_epoch = last_epoch
        self._granted: set[int] = set()
        self._ready = Ready()
        if last_epoch > state.epoch:
            # The log saw a leader of this epoch; so did we, though the file was lost.
            self._set_state(QuorumState(epoch=last_epoch))

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

    def take_ready(self) -> Ready:
        """What there is to do since the last call."""
        ready, self._ready = self._ready, Ready()
        return ready

    def start(self, now_ms: int) -> None:
        """Begin: the only voter needs to wait for nobody and elects itself (in a new epoch)."""
        if len(self.voters) == 1 and self.voters.is_voter(self.local.key):
            self.campaign(now_ms)

    def campaign(self, now_ms: int) -> None:
        """Ask for votes in the next epoch, beginning with one's own."""
        self.role = Role.CANDIDATE
        self._set_state(QuorumState(epoch=self.epoch + 1, voted=self.local.key))
        self._granted = {self.local.key.id}
        self._win(now_ms)

    def propose(self, records: Sequence[bytes], now_ms: int) -> Entry:
        """Append one batch of metadata records; NOT_CONTROLLER unless this replica leads.

        The batch is committed when `high_watermark` reaches the entry's `next_offset`.
        """
        if self.role is not Role.LEADER:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The active controller is another node")
        return self._append(Entry(self.log_end_offset, self.epoch, now_ms, tuple(records)))

    def flushed(self, end_offset: int) -> None:
        """All of the local log below `end_offset` is durable."""
        self.flushed_offset = max(self.flushed_offset, end_offset)
        self._advance_high_watermark()

    def resign(self) -> None:
        """Stop leading: on the way out, or because the log can no longer be written."""
        if self.role is Role.LEADER:
            self.role = Role.RESIGNED
            self._ready.leadership = (None, self.epoch)

    def _win(self, now_ms: int) -> None:
        if len(self._granted) < self.voters.majority:
            return
        self.role = Role.LEADER
        self._set_state(QuorumState(epoch=self.epoch, leader_id=self.local.key.id))
        self.epoch_start_offset = self.log_end_offset
        self._ready.leadership = (self.local.key.id, self.epoch)
        control = (self._leader_change(), *self._voters_to_state())
        self._append(Entry(self.log_end_offset, self.epoch, now_ms, control=control))

    def _leader_change(self) -> LeaderChangeMessage:
        """The record that opens an epoch; with kraft.version 1 it names directories too."""
        version = 1 if self.kraft_version > 0 else 0
        voter = LeaderChangeMessage.Voter
        return LeaderChangeMessage(
            version=version,
            leader_id=self.local.key.id,
            voters=[
                voter(voter_id=key.id, voter_directory_id=key.directory_id)
                for key in self.voters.keys()
            ],
            granting_voters=[
                voter(voter_id=key.id, voter_directory_id=key.directory_id)
                for key in self.voters.keys()
                if key.id in self._granted
            ],
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
        return [KRaftVersionRecord(k_raft_version=self.kraft_version), self.voters.record()]

    def _append(self, entry: Entry) -> Entry:
        self._ready.entries.append(entry)
        self.log_end_offset = entry.next_offset
        self.last_epoch = entry.epoch
        return entry

    def _advance_high_watermark(self) -> None:
        """What a majority has durably is committed, once that reaches into the leader's epoch."""
        if self.role is not Role.LEADER or self.voters.majority > 1:
            return
        reached = self.flushed_offset
        if reached > self.epoch_start_offset and reached > self.high_watermark:
            self.high_watermark = reached
            self._ready.high_watermark = reached

    def _set_state(self, state: QuorumState) -> None:
        self.state = state
        self._ready.quorum_state = state
