"""Build the change of one partition: ISR, leader, eligible leader replicas, reassignment.

Every change of a partition's state is decided here, so that all operations elect leaders and keep
the eligible leader replicas (ELR, KIP-966) by the same rules. The rules are those of Kafka's
`PartitionChangeBuilder`.
"""

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from barnabas.cluster.metadata.feature_levels import DIRECTORIES_SINCE
from barnabas.cluster.metadata.image import NO_LEADER, PartitionImage
from barnabas.protocol.records.metadata_records import PartitionChangeRecord
from barnabas.protocol.types import Uuid

# org.apache.kafka.metadata.LeaderRecoveryState
RECOVERED: Final = 0
RECOVERING: Final = 1
# PartitionChangeRecord: the leader does not change.
NO_LEADER_CHANGE: Final = -2
# IBP_3_6_IV0: a smaller ISR needs no new leader epoch (KAFKA-15021).
_ISR_SHRINKS_IN_EPOCH_SINCE: Final = 12


class Election(enum.Enum):
    """The replicas that may be elected, and their order."""

    PREFERRED = "preferred"  # in-sync replicas, the first replica before the current leader
    ONLINE = "online"  # in-sync replicas, the current leader first
    UNCLEAN = "unclean"  # as ONLINE, and without any in-sync replica every online replica


@attrs.frozen(slots=True)
class ElectionRules:
    """The state around a partition that its elections depend on.

    `accepts` is True for a broker that may lead the partition: active, with its replica online.
    `min_isr` is the effective min.insync.replicas. With `has_elr`, eligible leader replicas are
    kept. `new_directory` returns the directory of a new replica.
    """

    accepts: Callable[[int], bool]
    min_isr: int
    has_elr: bool
    metadata_version: int
    new_directory: Callable[[int], Uuid]
    election: Election = Election.ONLINE


@attrs.frozen(slots=True)
class _Elected:
    leader: int
    unclean: bool = False


@attrs.define(slots=True)
class PartitionChangeBuilder:
    """The wanted state of a partition; what is not set stays as it is.

    `unclean_shutdown` has replicas that may have lost acknowledged records: they leave the ELR.
    `directories` has the new directories of replicas. With `starts_epoch`, a leader epoch starts
    also when the leader stays.
    """

    partition: PartitionImage
    rules: ElectionRules
    isr: Sequence[int]
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]
    recovery_state: int
    directories: Mapping[int, Uuid] = attrs.field(factory=dict[int, Uuid])
    unclean_shutdown: Collection[int] = ()
    starts_epoch: bool = False

    @classmethod
    def of(cls, partition: PartitionImage, rules: ElectionRules) -> "PartitionChangeBuilder":
        """Return a builder whose wanted state is the present one."""
        return cls(
            partition,
            rules,
            isr=partition.isr,
            replicas=partition.replicas,
            adding=partition.adding_replicas,
            removing=partition.removing_replicas,
            recovery_state=partition.leader_recovery_state,
        )

    def build(self, topic_id: Uuid, number: int) -> PartitionChangeRecord | None:
        """Return the change to record, or None when nothing changes."""
        self._complete_reassignment()
        elr = self._eligible_leaders()
        elected = self._elect(elr)
        is_new_leader = elected.leader != self.partition.leader
        unclean = elected.unclean and is_new_leader
        if is_new_leader and (unclean or elected.leader in elr):
            self.isr = (elected.leader,)
            elr = tuple(replica for replica in elr if replica != elected.leader)
        if unclean or not self.rules.has_elr:
            elr = ()
        record = PartitionChangeRecord(topic_id=topic_id, partition_id=number)
        if is_new_leader:
            record.leader = elected.leader
        if unclean:
            self.recovery_state = RECOVERING
        self._record_in_sync(record, elr)
        self._start_epoch_where_needed(record)
        self._record_last_known_leader(record)
        self._record_assignment(record)
        if self.recovery_state != self.partition.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        return None if is_empty_change(record) else record

    # Reassignment

    def _complete_reassignment(self) -> None:
        """End the reassignment when its replicas are in sync."""
        if not self.adding and not self.removing:
            return
        isr = _without(self.isr, self.removing)
        replicas = _without(self.replicas, self.removing)
        if not isr or not replicas or not _has_all(isr, self.adding):
            return
        # With fewer replicas than before, an ISR that only has the added ones would be smaller.
        if len(self.adding) < len(self.removing) and not _has_all(isr, replicas):
            return
        self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()

    def _record_assignment(self, record: PartitionChangeRecord) -> None:
        partition = self.partition
        has_moved = self.replicas is not partition.replicas
        if has_moved and tuple(self.replicas) != partition.replicas:
            record.replicas = list(self.replicas)
        may_differ = has_moved or self.directories
        if may_differ and self.rules.metadata_version >= DIRECTORIES_SINCE:
            directories = tuple(self._directory(replica) for replica in self.replicas)
            if directories != partition.directories:
                record.directories = list(directories)
        if tuple(self.removing) != partition.removing_replicas:
            record.removing_replicas = list(self.removing)
        if tuple(self.adding) != partition.adding_replicas:
            record.adding_replicas = list(self.adding)

    def _directory(self, replica: int) -> Uuid:
        if replica in self.directories:
            return self.directories[replica]
        if replica in self.partition.replicas:
            return self.partition.directory(replica)
        return self.rules.new_directory(replica)

    # Election

    def _elect(self, elr: Sequence[int]) -> _Elected:
        """Return the leader to have: an in-sync or eligible replica, or else an unclean choice."""
        order = [self.partition.leader, *self.replicas]
        if self.rules.election is Election.PREFERRED:
            order.insert(0, self.replicas[0])
        in_sync = self.isr or elr
        for replica in order:
            if replica in in_sync and self.rules.accepts(replica):
                return _Elected(replica)
        for replica in self._unclean_candidates(is_any_in_sync=bool(in_sync)):
            if self.rules.accepts(replica):
                return _Elected(replica, unclean=True)
        return _Elected(NO_LEADER)

    def _unclean_candidates(self, *, is_any_in_sync: bool) -> Iterator[int]:
        """Yield replicas that may lack committed records; the last known leader has the most."""
        last_known = self.partition.last_known_elr
        if self.rules.has_elr and not is_any_in_sync and len(last_known) == 1:
            # Kafka also elects a last known leader that a reassignment has removed.
            yield from (each for each in last_known if each in self.replicas)
        if self.rules.election is Election.UNCLEAN:
            yield from self.replicas

    def _start_epoch_where_needed(self, record: PartitionChangeRecord) -> None:
        """Keep the leader in a new epoch, so that a removed replica cannot count in it."""
        if record.leader != NO_LEADER_CHANGE:
            return
        partition = self.partition
        shrinks = record.isr is not None and not _has_all(record.isr, partition.isr)
        if (
            self.starts_epoch
            or not _has_all(self.replicas, partition.replicas)
            or (shrinks and self.rules.metadata_version < _ISR_SHRINKS_IN_EPOCH_SINCE)
        ):
            record.leader = partition.leader

    # In-sync and eligible replicas

    def _eligible_leaders(self) -> Sequence[int]:
        """Return the replicas outside the ISR that have all committed records.

        While the ISR is below the effective min.insync.replicas, the high watermark does not move,
        so a replica that leaves the ISR still has all committed records.
        """
        if not self.rules.has_elr:
            return self.partition.elr
        if len(self.isr) >= self.rules.min_isr:
            return ()
        partition = self.partition
        candidates = {*partition.elr, *partition.isr} - {*self.isr} - {*self.unclean_shutdown}
        # Kafka keeps replicas that a reassignment removes, but does not elect them either.
        return tuple(sorted(candidates & {*self.replicas}))

    def _record_in_sync(self, record: PartitionChangeRecord, elr: Sequence[int]) -> None:
        partition = self.partition
        if tuple(elr) != partition.elr:
            record.eligible_leader_replicas = list(elr)
        # Without ELR, the last in-sync replica stays in the ISR: only it has all the records.
        if (self.isr or self.rules.has_elr) and tuple(self.isr) != partition.isr:
            record.isr = list(self.isr)

    def _record_last_known_leader(self, record: PartitionChangeRecord) -> None:
        partition = self.partition
        if not self.rules.has_elr:
            return
        if record.leader == NO_LEADER:
            if not partition.last_known_elr and partition.leader != NO_LEADER:
                record.last_known_elr = [partition.leader]
        elif record.leader >= 0 and partition.last_known_elr:
            record.last_known_elr = []


def is_empty_change(record: PartitionChangeRecord) -> bool:
    """True when a change changes nothing."""
    return (
        record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state < 0
        and record.isr is None
        and record.replicas is None
        and record.directories is None
        and record.adding_replicas is None
        and record.removing_replicas is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
    )


def _without(replicas: Iterable[int], removed: Collection[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in removed)


def _has_all(replicas: Collection[int], wanted: Iterable[int]) -> bool:
    return all(replica in replicas for replica in wanted)
