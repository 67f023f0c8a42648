"""Changes of the voters while the quorum runs (KIP-853): add, remove, update.

One change at a time, and only from a set that is committed: two sets that differ by one voter have
a common member in any two majorities. A new set counts as soon as it is in the log. Sources:
`AddVoterHandler`, `RemoveVoterHandler`, `UpdateVoterHandler` of Kafka.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import ZERO_UUID

_CAUGHT_UP_WITHIN_MS: Final = 3_600_000
"""A new voter must have fetched within this time."""


def check_changeable(core: RaftCore) -> None:
    """Raise KafkaError unless this replica may change the voters now.

    NOT_LEADER_OR_FOLLOWER when it does not lead; UNSUPPORTED_VERSION when the voters are static;
    REQUEST_TIMED_OUT while an earlier change, or the start of the epoch, is not committed.
    """
    if not core.is_leader:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The leader is another node")
    if core.leader_high_watermark < 0:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The leader has not committed a record of its epoch yet"
        )
    if core.kraft_version == 0:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Cluster doesn't support changing voters because the kraft.version feature is 0",
        )
    if core.voters_offset >= core.high_watermark:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The voters at offset {core.voters_offset} are not committed yet",
        )


def check_addable(core: RaftCore, key: ReplicaKey) -> None:
    """Raise KafkaError unless a replica may become a voter (see `check_changeable`).

    DUPLICATE_VOTER when a voter has its node id, also with another directory.
    """
    check_changeable(core)
    if key.id in core.voters.voters:
        raise KafkaError(
            ErrorCode.DUPLICATE_VOTER,
            f"The voter id for {_shown(key)} is already part of the set of voters "
            f"{[each.id for each in core.voters.replica_keys]}.",
        )


def add_voter(core: RaftCore, voter: Voter, now_ms: int) -> Entry:
    """Append a set with a new voter, which must have caught up as an observer.

    Raises KafkaError; INVALID_REQUEST when the voter does not support the kraft.version.
    """
    check_addable(core, voter.key)
    _check_range(core, voter)
    progress = core.progress_of(voter.key)
    is_recent = progress.fetched_ms > now_ms - _CAUGHT_UP_WITHIN_MS
    if progress.caught_up_ms < 0 or not is_recent:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"Aborted add voter operation for {_shown(voter.key)} since it is lagging behind",
        )
    return core.change_voters(VoterSet({**core.voters.voters, voter.key.id: voter}), now_ms)


def remove_voter(core: RaftCore, key: ReplicaKey, now_ms: int) -> Entry:
    """Append a set without a voter; the leader may remove itself.

    Raises KafkaError: VOTER_NOT_FOUND unless both id and directory are a voter's, INVALID_REQUEST
    for the last voter.
    """
    check_changeable(core)
    voter = core.voters.voters.get(key.id)
    if voter is None or voter.key != key:
        raise KafkaError(
            ErrorCode.VOTER_NOT_FOUND,
            f"Cannot remove voter {_shown(key)} because the set of voters "
            f"{[each.id for each in core.voters.replica_keys]} does not contain it",
        )
    if len(core.voters) == 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Cannot remove {_shown(key)}: it is the only voter"
        )
    others = {node: each for node, each in core.voters.voters.items() if node != key.id}
    return core.change_voters(VoterSet(others), now_ms)


def update_voter(core: RaftCore, voter: Voter, now_ms: int) -> Entry | None:
    """Append a set with new endpoints or versions of a voter; None when nothing changes.

    Raises KafkaError: VOTER_NOT_FOUND when it is not a voter.
    """
    check_changeable(core)
    _check_range(core, voter)
    known = core.voters.voters.get(voter.key.id)
    if known is None or known.key != voter.key:
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{_shown(voter.key)} is not a voter")
    if known == voter:
        return None
    return core.change_voters(VoterSet({**core.voters.voters, voter.key.id: voter}), now_ms)


def upgraded_voters(core: RaftCore, reported: Mapping[int, Voter], version: int) -> VoterSet:
    """Return the voters for an upgrade of kraft.version, with the directories that they reported.

    Raises KafkaError INVALID_UPDATE_VERSION while a voter's directory is not known, or when one
    does not support the version.
    """
    found: dict[int, Voter] = {}
    for voter in core.voters:
        node_id = voter.key.id
        current = core.local if node_id == core.local.key.id else reported.get(node_id, voter)
        current = attrs.evolve(current, endpoints=current.endpoints or voter.endpoints)
        if current.key.directory_id == ZERO_UUID and len(core.voters) > 1:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Cannot upgrade kraft.version: the directory of voter {node_id} is not known",
            )
        if not current.kraft_version_min <= version <= current.kraft_version_max:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Cannot upgrade kraft.version to {version}: voter {node_id} does not support it",
            )
        found[node_id] = current
    return VoterSet(found)


def _check_range(core: RaftCore, voter: Voter) -> None:
    if not voter.kraft_version_min <= core.kraft_version <= voter.kraft_version_max:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{_shown(voter.key)} supports kraft.version {voter.kraft_version_min} to "
            f"{voter.kraft_version_max}, not {core.kraft_version}",
        )


def _shown(key: ReplicaKey) -> str:
    return f"replica {key.id} with directory {key.directory_id}"
