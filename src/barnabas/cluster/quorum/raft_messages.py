"""What replicas of the quorum say to each other, as values; the shell turns them into requests.

Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch of KIP-595, with pre-votes (KIP-996) and replica
directories (KIP-853). `to` is a node id.
"""

from collections.abc import Sequence

import attrs

from barnabas.cluster.quorum.voters import ReplicaKey


@attrs.frozen(slots=True)
class VoteRequest:
    """A candidate asks for a vote, or (`pre_vote`) whether it would get one."""

    to: int
    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    end_offset: int
    pre_vote: bool


@attrs.frozen(slots=True)
class VoteResponse:
    """The answer to `request`, with what the voter knows of the epoch it is in."""

    request: VoteRequest
    voter_id: int
    epoch: int
    leader_id: int | None
    granted: bool


@attrs.frozen(slots=True)
class BeginQuorumEpoch:
    """A new leader makes itself known to a voter, until that voter fetches."""

    to: int
    epoch: int
    leader_id: int


@attrs.frozen(slots=True)
class EndQuorumEpoch:
    """A leader resigns; voters should elect anew, the most caught-up first."""

    to: int
    epoch: int
    leader_id: int
    preferred: tuple[int, ...]


@attrs.frozen(slots=True)
class FetchRequest:
    """A follower asks for what is behind its log, and says how far that reaches."""

    to: int
    epoch: int
    replica: ReplicaKey
    offset: int
    last_epoch: int


@attrs.frozen(slots=True)
class FetchResponse:
    """The answer to a Fetch: nothing known of records here, the shell adds those.

    `diverging` is (epoch, end offset) of the leader's log where the follower's has another one:
    it truncates and asks again. `is_leader` is False when the follower must look elsewhere.
    """

    epoch: int
    leader_id: int | None
    is_leader: bool
    high_watermark: int
    diverging: tuple[int, int] | None = None


Outgoing = VoteRequest | VoteResponse | BeginQuorumEpoch | EndQuorumEpoch


class EpochHistory:
    """Where each epoch of a log starts (Kafka's `LeaderEpochFileCache`)."""

    def __init__(self, starts: Sequence[tuple[int, int]], end_offset: int) -> None:
        self._starts = list(starts)
        self.end_offset = end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; 0 in an empty log."""
        return self._starts[-1][0] if self._starts else 0

    def extend(self, epoch: int, start_offset: int, end_offset: int) -> None:
        """Note records of `epoch` from `start_offset` up to `end_offset`."""
        if not self._starts or epoch > self._starts[-1][0]:
            self._starts.append((epoch, start_offset))
        self.end_offset = end_offset

    def truncate(self, offset: int) -> None:
        """Forget what is at or above `offset`."""
        self._starts = [start for start in self._starts if start[1] < offset]
        self.end_offset = min(self.end_offset, offset)

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to `epoch` that the log has, and where it ends."""
        found, end = 0, self._starts[0][1] if self._starts else self.end_offset
        for index, (known, _) in enumerate(self._starts):
            if known > epoch:
                break
            following = self._starts[index + 1 :]
            found, end = known, following[0][1] if following else self.end_offset
        return found, end
