"""Invariants of the metadata quorum, checked at each effect of each replica.

R1  at most one leader in an epoch, over all lives
R2  the state file never loses a vote or a leader within an epoch
R4  no replica follows itself
LC  a new leader's log has every committed entry, and a majority of the voters what it commits
HW  the high watermark never falls within a life, and no committed entry changes or is truncated
IM  the images of one offset are equal on all replicas
SN  a snapshot names the end of a committed batch, and the epoch of that batch
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from barnabas.cluster.controller.controller_state_machine import CommittedBatch
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Entry, Role
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.world import Process

_COMPARED_EVERY: Final = 8
"""Images are compared at offsets that are multiples of this."""


class InvariantError(AssertionError):
    """An invariant does not hold; the message begins with its name."""


def require(condition: bool, name: str, what: str) -> None:
    """Raise InvariantError unless the condition holds."""
    if not condition:
        raise InvariantError(f"{name}: {what}")


class QuorumLog(Protocol):
    """The log of a replica, as far as the invariants read it."""

    @property
    def start_offset(self) -> int:
        """The offset of the first entry; the snapshots have what was before."""
        ...

    @property
    def entries(self) -> list[Entry]:
        """All entries of the log."""
        ...

    def between(self, start: int, end: int) -> Iterator[Entry]:
        """Yield the entries from `start` on that end at or below `end`."""
        ...


class Replica(Protocol):
    """A replica of the quorum in one life of a process."""

    process: Process
    core: RaftCore
    key: ReplicaKey
    log: QuorumLog


class QuorumInvariants:
    """Checks the invariants of the quorum; `digest` makes a comparable value of an image.

    `follow` takes each batch that a replica publishes.
    """

    def __init__(
        self, digest: Callable[[Any], object], follow: Callable[[CommittedBatch], None]
    ) -> None:
        self.committed: list[Entry] = []
        self.leaders: dict[int, int] = {}
        self._votes: dict[tuple[ReplicaKey, int], int] = {}
        self._checked: dict[tuple[int, int], int] = {}  # the offset compared, by (node, life)
        self._high_watermarks: dict[tuple[int, int], int] = {}
        self._images: dict[int, object] = {}
        self._candidates: dict[int, set[int]] = {}
        self._counted_offset = -1
        self._replicas: dict[ReplicaKey, Replica] = {}
        self._digest = digest
        self._follow = follow

    def state_written(self, replica: Replica, old: QuorumState, new: QuorumState) -> None:
        """Check R2."""
        require(new.epoch >= old.epoch, "R2", f"{replica.process}: the epoch fell")
        self._count_candidates(replica, old, new)
        if new.epoch == old.epoch:
            is_kept = old.leader_id is None or new.leader_id == old.leader_id
            require(is_kept, "R2", f"{replica.process}: the leader of {old.epoch} is forgotten")
            if old.voted is not None and new.leader_id is None:
                is_kept = new.voted == old.voted
                require(is_kept, "R2", f"{replica.process}: the vote in {old.epoch} is forgotten")
        if new.voted is not None:
            self._note_vote(replica, new.epoch, new.voted.id)

    def _count_candidates(self, replica: Replica, old: QuorumState, new: QuorumState) -> None:
        node_id = replica.process.node_id
        if new.voted is not None and new.voted.id == node_id and new.leader_id is None:
            self._candidates.setdefault(new.epoch, set()).add(node_id)
        is_split = len(self._candidates.get(old.epoch, ())) > 1 and old.epoch not in self.leaders
        if is_split and new.epoch > old.epoch:
            replica.process.world.rare.reached(RareState.SPLIT_VOTE)

    def vote_granted(self, replica: Replica, epoch: int, candidate: int) -> None:
        """Check that a replica has one vote in an epoch."""
        self._note_vote(replica, epoch, candidate)

    def _note_vote(self, replica: Replica, epoch: int, candidate: int) -> None:
        known = self._votes.setdefault((replica.key, epoch), candidate)
        require(known == candidate, "R2", f"{replica.process} voted twice in epoch {epoch}")

    def followed(self, replica: Replica) -> None:
        """Check that no replica follows itself."""
        self._replicas[replica.key] = replica
        core, node_id = replica.core, replica.process.node_id
        is_own = core.role is Role.FOLLOWER and core.leader_id == node_id
        require(not is_own, "R4", f"{replica.process} follows itself")

    def led(self, replica: Replica) -> None:
        """Check R1, and LC when the leader is new."""
        epoch, node_id = replica.core.epoch, replica.process.node_id
        known = self.leaders.get(epoch)
        if known is None:
            self.leaders[epoch] = node_id
            replica.process.world.note(replica.process, "leads epoch", epoch)
            if all(entry.epoch < epoch for entry in self.committed[-1:]):
                first = self._index_of(replica.log.start_offset)
                wanted = self.committed[first:]
                held = replica.log.entries[: len(wanted)]
                require(held == wanted, "LC", f"leader {node_id} lacks committed entries")
        else:
            require(known == node_id, "R1", f"{known} and {node_id} lead epoch {epoch}")

    def high_watermark_raised(self, replica: Replica, offset: int) -> None:
        """Check HW: the committed entries are the same everywhere, and LC for those of a leader."""
        if replica.core.is_leader:
            self._check_majority(replica.core, offset)
        life = replica.process.node_id, replica.process.life
        is_raised = offset >= self._high_watermarks.get(life, 0)
        require(is_raised, "HW", f"{replica.process}: it fell to {offset}")
        self._high_watermarks[life] = offset
        log, committed = replica.log, self.committed
        start = max(self._checked.get(life, 0), log.start_offset)
        index = self._index_of(start)
        for entry in log.between(start, offset):
            if index == len(committed):
                committed.append(entry)
            is_same = entry == committed[index]
            require(is_same, "HW", f"{replica.process}: {entry} differs from the committed")
            index += 1
            start = entry.next_offset
        self._checked[life] = start

    def _check_majority(self, leader: RaftCore, offset: int) -> None:
        """Check LC: a majority of the voters has what the leader commits, on their own disks."""
        holders = [
            key
            for key, replica in self._replicas.items()
            if leader.voters.is_voter(key) and replica.core.log.end_offset >= offset
        ]
        is_held = len({key.id for key in holders}) >= leader.voters.majority
        require(is_held, "LC", f"only {holders} have what is committed up to {offset}")

    def _index_of(self, offset: int) -> int:
        return bisect_left(self.committed, offset, key=_base_offset)

    def truncated(self, replica: Replica, offset: int) -> None:
        """Check that no entry that this life knows to be committed is removed."""
        known = self._high_watermarks.get((replica.process.node_id, replica.process.life), 0)
        require(offset >= known, "HW", f"{replica.process}: truncated to {offset} below {known}")

    def published(self, replica: Replica, batch: CommittedBatch) -> None:
        """Check IM, and count what the batch changes."""
        if batch.image.offset > self._counted_offset:
            self._counted_offset = batch.image.offset
            replica.process.world.rare.committed(batch.delta)
        self._follow(batch)
        if batch.image.offset % _COMPARED_EVERY:
            return
        digest = self._digest(batch.image)
        known = self._images.setdefault(batch.image.offset, digest)
        require(known == digest, "IM", f"{replica.process}: another image at {batch.image.offset}")

    def snapshot_written(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Check SN."""
        last = self.committed[self._index_of(snapshot.end_offset) - 1]
        is_named = (last.next_offset, last.epoch) == (snapshot.end_offset, snapshot.epoch)
        require(is_named, "SN", f"{replica.process}: {snapshot} after {last.epoch}")


def _base_offset(entry: Entry) -> int:
    return entry.base_offset
