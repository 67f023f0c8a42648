"""The file `quorum-state`: the epoch, the leader and the vote that a node must never forget.

JSON as Kafka's `QuorumStateData` writes it. Version 1 goes with kraft.version 1: it has the voted
replica's directory, and no list of voters (those are in the log).
"""

import json
from pathlib import Path
from typing import Any

import attrs

from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.types import Uuid

FILE_NAME = "quorum-state"
_NOBODY = -1


class QuorumStateError(Exception):
    """The file says nothing that one may vote on; starting with it could elect two leaders."""


@attrs.frozen(slots=True)
class QuorumState:
    """Epoch, its leader if known, and whom this node voted for in it (None: nobody)."""

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None

    def encode(self) -> bytes:
        """The file's content."""
        voted = self.voted or ReplicaKey(_NOBODY)
        fields = {
            "leaderId": _NOBODY if self.leader_id is None else self.leader_id,
            "leaderEpoch": self.epoch,
            "votedId": voted.id,
            "votedDirectoryId": str(voted.directory_id),
            "data_version": 1,
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, content: bytes) -> "QuorumState":
        """Read the file's content, of version 0 (static voters) or 1; QuorumStateError if bad."""
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


def read_quorum_state(metadata_directory: Path) -> QuorumState:
    """The node's state; a fresh one where there is no file yet. QuorumStateError if damaged."""
    try:
        content = (metadata_directory / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return QuorumState()
    return QuorumState.decode(content)
