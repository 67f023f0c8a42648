"""The content of the file `quorum-state`: epoch, leader and vote, which a node must not lose.

JSON as Kafka's `QuorumStateData` writes it, in the version that belongs to kraft.version (Kafka's
`KRaftVersion#quorumStateVersion`). Version 0 has the ids of the static voters, version 1 the
directory of the voted replica: its voters are in the log.
"""

import json
from collections.abc import Iterable
from typing import Any

import attrs

from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.types import Uuid

FILE_NAME = "quorum-state"
_NOBODY = -1


class QuorumStateError(Exception):
    """The file is damaged; voting without it could elect two leaders in one epoch."""


@attrs.frozen(slots=True)
class QuorumState:
    """An epoch, its leader (None: unknown), and this node's vote in it (None: no vote)."""

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None

    def may_vote_for(self, candidate: ReplicaKey) -> bool:
        """True without a vote in the epoch, and when it was for this candidate.

        The directory of the voted replica is unknown after a restart with kraft.version 0, as in
        Kafka's `ElectionState#isVotedCandidate`.
        """
        voted = self.voted
        if voted is None or voted == candidate:
            return True
        return voted == ReplicaKey(candidate.id)

    def encode(self, kraft_version: int, voter_ids: Iterable[int]) -> bytes:
        """Return the content of the file; the ids of the voters are in version 0 only."""
        voted = self.voted or ReplicaKey(_NOBODY)
        common = {
            "leaderId": _NOBODY if self.leader_id is None else self.leader_id,
            "leaderEpoch": self.epoch,
            "votedId": voted.id,
        }
        if kraft_version == 0:
            voters = [{"voterId": voter_id} for voter_id in sorted(voter_ids)]
            rest = {"appliedOffset": 0, "currentVoters": voters, "data_version": 0}
            fields = {"clusterId": "", **common, **rest}
        else:
            directory_id = str(voted.directory_id)
            fields = {**common, "votedDirectoryId": directory_id, "data_version": 1}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, content: bytes) -> "QuorumState":
        """Read the content of the file, in version 0 (static voters) or 1.

        Raises QuorumStateError when it is damaged.
        """
        try:
            fields: dict[str, Any] = json.loads(content)
            leader_id, epoch = int(fields["leaderId"]), int(fields["leaderEpoch"])
            voted_id, version = int(fields.get("votedId", _NOBODY)), int(fields["data_version"])
            directory_id = Uuid.parse(fields.get("votedDirectoryId", "A" * 22))
        except (ValueError, KeyError, TypeError) as error:
            raise QuorumStateError(f"{FILE_NAME} is damaged: {error}") from error
        if version not in (0, 1) or epoch < 0:
            raise QuorumStateError(f"{FILE_NAME} has data_version {version}, epoch {epoch}")
        return cls(
            epoch=epoch,
            leader_id=None if leader_id == _NOBODY else leader_id,
            voted=None if voted_id == _NOBODY else ReplicaKey(voted_id, directory_id),
        )
