"""The messages between replicas of the quorum, as values; the shell turns them into requests.

Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch of KIP-595, with pre-votes (KIP-996), replica
directories (KIP-853) and snapshots (KIP-630). `to` is a node id. A response carries an error code
instead of raising, since each error has its own outcome at the receiver.
"""

import attrs

from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.errors import ErrorCode


@attrs.frozen(slots=True)
class VoteRequest:
    """A candidate requests a vote, or (`pre_vote`) whether the voter would grant one.

    `voter` is the key that the candidate has for the voter; old candidates state none.
    """

    to: int
    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    end_offset: int
    pre_vote: bool
    voter: ReplicaKey | None = None


@attrs.frozen(slots=True)
class VoteResponse:
    """The response to `request`, with the voter's epoch and that epoch's leader if known."""

    request: VoteRequest
    voter_id: int
    epoch: int
    leader_id: int | None
    granted: bool
    error: ErrorCode = ErrorCode.NONE


@attrs.frozen(slots=True)
class BeginQuorumEpoch:
    """A leader announces itself to a voter that does not fetch; `voter` is as in a vote."""

    to: int
    epoch: int
    leader_id: int
    voter: ReplicaKey | None = None


@attrs.frozen(slots=True)
class EndQuorumEpoch:
    """A leader resigns; voters elect a successor, the most caught-up first."""

    to: int
    epoch: int
    leader_id: int
    preferred: tuple[ReplicaKey, ...]


@attrs.frozen(slots=True)
class FetchRequest:
    """A replica requests the records at `offset` and above; `last_epoch` is its last record's.

    All records of the replica below `offset` are durable. `to` is None when the replica does not
    know the leader: the shell sends the request to a bootstrap server.
    """

    to: int | None
    epoch: int
    replica: ReplicaKey
    offset: int
    last_epoch: int


@attrs.frozen(slots=True)
class FetchResponse:
    """The response to a Fetch, without the records, which the shell adds.

    `diverging` is the end of an epoch in the leader's log: the follower truncates and fetches
    again. `snapshot` is set when the leader's log no longer has the requested records.
    `high_watermark` is -1 until the leader has committed a record of its epoch.
    """

    epoch: int
    leader_id: int | None
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None

    @property
    def has_records(self) -> bool:
        """True when the shell adds records from the requested offset."""
        return self.error is ErrorCode.NONE and self.diverging is None and self.snapshot is None


Outgoing = VoteRequest | VoteResponse | BeginQuorumEpoch | EndQuorumEpoch
