"""The values that the Raft core holds and returns: roles, timeouts, entries, effects, progress."""

import enum
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft_messages import Outgoing
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.messages_base import Message

_LOST_ELECTION_MS: Final = (50, 200)
_QUICK_ELECTIONS: Final = 8
"""Elections without a winner that follow each other quickly; each attempt has two of them."""


class Role(enum.Enum):
    """The state of a replica in its epoch (Kafka's `EpochState` classes)."""

    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


class QuorumDataLossError(Exception):
    """The leader's log lacks records that this replica knows to be committed.

    The process must end: truncating would hide that the quorum has lost acknowledged metadata.
    """


@attrs.frozen(slots=True)
class Timeouts:
    """The `controller.quorum.*` timeouts in ms."""

    election_ms: int = 1000
    fetch_ms: int = 2000
    backoff_max_ms: int = 1000
    retry_backoff_ms: int = 20

    @property
    def majority_ms(self) -> int:
        """The time without a fetch from a majority that deposes a leader (KAFKA-15489)."""
        return self.fetch_ms * 3 // 2

    def attempt_ms(self, elections: int, random: Callable[[int], int]) -> int:
        """Return the random time in ms for one election, after `elections` without a winner."""
        shortest = self.election_ms
        spread = random(max(1, shortest))
        backoff = min(self.backoff_max_ms, 50 * (1 << min(elections, 10)))
        return shortest + spread + (random(max(1, backoff)) if elections else 0)

    def lost_ms(self, elections: int, random: Callable[[int], int]) -> int:
        """Return the random wait of a candidate that has lost, before its next attempt.

        It is short, because the votes may have been split. A candidate that keeps losing waits
        for a whole election: each attempt begins an epoch, in which the others wait. Its pre-votes
        do not stop it when the other voters are too old for them.
        """
        if elections > _QUICK_ELECTIONS:
            return self.attempt_ms(elections, random)
        shortest, longest = _LOST_ELECTION_MS
        return shortest + random(longest - shortest)

    def succession_ms(self, preferred: Sequence[ReplicaKey], local_id: int) -> int:
        """Return the delay of a replica among the successors of a leader that resigned."""
        longest = self.backoff_max_ms
        ids = [candidate.id for candidate in preferred]
        if local_id not in ids:
            return longest
        position = ids.index(local_id)
        if position == 0:
            return 0
        return min(longest, (longest >> (len(ids) - 1)) << (position - 1))


@attrs.frozen(slots=True)
class Entry:
    """One batch for the log, with the offsets from `base_offset` on.

    `records` are encoded metadata records, or `control` the messages of a control batch.
    """

    base_offset: int
    epoch: int
    timestamp_ms: int
    records: tuple[bytes, ...] = ()
    control: tuple[Message, ...] = ()

    @property
    def next_offset(self) -> int:
        """The offset after its last record."""
        return self.base_offset + len(self.records) + len(self.control)


@attrs.define(slots=True)
class Ready:
    """The effects that the shell carries out, in the order of the fields.

    quorum_state    write and fsync it before anything below: a vote or an epoch that was answered
                    or appended in must survive a crash
    truncate_to     truncate the log to this offset
    entries         append them; fsync later, then call `on_flushed`
    messages        send them
    leadership      the leader (None: unknown) and the epoch, after a change of either
    high_watermark  the new high watermark; all records below are committed
    fetch_snapshot  download this snapshot from the leader, then call `on_snapshot_installed`
    """

    quorum_state: QuorumState | None = None
    truncate_to: int | None = None
    entries: list[Entry] = attrs.field(factory=list[Entry])
    messages: list[Outgoing] = attrs.field(factory=list[Outgoing])
    leadership: tuple[int | None, int] | None = None
    high_watermark: int | None = None
    fetch_snapshot: OffsetAndEpoch | None = None


@attrs.define(slots=True)
class Progress:
    """A leader's knowledge of one replica.

    `end_offset` is the durable log end of the replica, -1 before its first fetch in the epoch.
    `fetched_ms` and `caught_up_ms` are the times of its last fetch and of the last moment at which
    it had all records of the leader, -1 if never.
    """

    end_offset: int = -1
    fetched_ms: int = -1
    caught_up_ms: int = -1
    _leader_end_offset: int = -1

    def fetched(self, end_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Note a fetch at `end_offset`, with the leader's log end offset at that time.

        Source: `LeaderState.ReplicaState.updateFollowerState`.
        """
        if end_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif 0 <= self._leader_end_offset <= end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = end_offset
        self.fetched_ms = now_ms
        self._leader_end_offset = leader_end_offset
