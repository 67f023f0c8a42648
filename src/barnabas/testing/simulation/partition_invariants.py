"""Invariants of the partitions, checked at each change of each log.

P0  at most one broker appends to a partition in a leader epoch
P1  the records below the high watermark are the same on all replicas and never change
P2  a consumer sees only committed records
P3  a record that is acknowledged with acks=all is on every member of the maximal ISR
P4  an elected leader has every committed record, and so an acknowledged one is there at the end
LS  a log starts at most at the highest offset below which a client deleted records

An unclean election ends P1 and P4 for the records that its leader lacks; P5: without
unclean.leader.election.enable it happens only after min.isr replicas stopped uncleanly.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from zlib import crc32

import attrs

from barnabas.cluster.controller.controller_state_machine import CommittedBatch
from barnabas.cluster.replication import Partition
from barnabas.protocol.batches.batch_header import BatchHeader, iter_batches
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.partition_history import Key, PartitionHistory
from barnabas.testing.simulation.quorum_invariants import InvariantError, require
from barnabas.testing.simulation.sim_logs import SimLogs
from barnabas.testing.simulation.sim_partition_log import LogObserver, SimPartitionLog

Place = tuple[int, int]  # a base offset, and the crc of the batch


@attrs.frozen(slots=True)
class Loss:
    """The leader of this epoch was elected without the committed records from `offset` on."""

    leader_epoch: int
    offset: int


@attrs.define(slots=True, eq=False)
class _Committed:
    """The committed batches of a partition, and those that a later leader lacked."""

    places: list[Place] = attrs.field(factory=list[Place])
    batches: list[bytes] = attrs.field(factory=list[bytes])
    epochs: list[int] = attrs.field(factory=list[int])
    """The leader epoch in which each batch was committed, perhaps later than that of its append."""
    lost: dict[Place, bytes] = attrs.field(factory=dict[Place, bytes])
    losses: list[Loss] = attrs.field(factory=list[Loss])
    deleted_to: int = 0
    is_deleted_to_end: bool = False

    def index_of(self, log: SimPartitionLog) -> int:
        """Return how many batches are before the first one of a log, which may start later."""
        if log.batches:
            return bisect_left(self.places, (log.batches[0][0].base_offset, 0))
        index = bisect_left(self.places, (log.log_end_offset, 0))
        if index and _next_offset(self.batches[index - 1]) > log.log_end_offset:
            index -= 1  # the log starts inside a batch
        return index

    def common(self, log: SimPartitionLog) -> int:
        """Return how many of the batches a log has, with those that were deleted before it."""
        places = self.places
        for header, data in reversed(log.batches[: self.reach(log)]):
            index = bisect_left(places, (header.base_offset, 0))
            if places[index] == (header.base_offset, crc32(data)):
                return index + 1
        return self.index_of(log)

    def reach(self, log: SimPartitionLog, count: int | None = None) -> int:
        """Return how many batches of a log, or of its first ones, begin no later than the last."""
        last, batches = self.places[-1][0] if self.places else -1, log.batches
        count = len(batches) if count is None else min(count, len(batches))
        if not count or batches[count - 1][0].base_offset <= last:
            return count
        return bisect_right(batches, last, hi=count, key=_base_offset)

    def has_between(self, start: int, end: int) -> bool:
        """True when a batch that was not deleted begins at an offset from `start` to `end`."""
        first, last = (bisect_left(self.places, (offset, 0)) for offset in (start, end))
        return first < last and _next_offset(self.batches[last - 1]) > self.deleted_to


class PartitionInvariants(LogObserver):
    """Checks the invariants of all partitions; `disks` has the logs of each broker.

    `fail` ends the run, since a core may catch the error and continue without the partition.
    """

    def __init__(self, fail: Callable[[Exception], None]) -> None:
        self.disks: dict[int, SimLogs] = {}
        self.history = PartitionHistory()
        self.stopped_uncleanly: set[int] = set()
        self.unclean_elections = 0
        self.acknowledged = 0
        self._appenders: dict[tuple[Uuid, int, int], int] = {}
        self._committed: dict[Key, _Committed] = {}
        self._checked: dict[SimPartitionLog, int] = {}
        self._fail = fail

    def _require(self, condition: bool, name: str, what: str) -> None:
        try:
            require(condition, name, what)
        except InvariantError as error:
            self._fail(error)
            raise

    def _of(self, log: SimPartitionLog) -> _Committed:
        return self._committed.setdefault((log.topic_id, log.partition), _Committed())

    def published(self, batch: CommittedBatch) -> None:
        """Follow the committed metadata; check P5."""
        for found in self.history.take(batch):
            self.unclean_elections += 1
            stopped = self.stopped_uncleanly & {*found.partition.replicas}
            is_due = found.is_allowed or len(stopped) >= found.min_isr
            self._require(is_due, "P5", f"unclean election of {found} after stops of {stopped}")

    def appended(self, log: SimPartitionLog, leader_epoch: int) -> None:
        """Check P0."""
        key = (log.topic_id, log.partition, leader_epoch)
        known = self._appenders.setdefault(key, log.broker_id)
        both = f"{known} and {log.broker_id}"
        self._require(known == log.broker_id, "P0", f"{both} append to {log!r} in {leader_epoch}")

    def epoch_started(self, log: SimPartitionLog, leader_epoch: int) -> None:
        """Check P4 when a leader starts its epoch."""
        partition = self.history.state((log.topic_id, log.partition), leader_epoch)
        if partition is None or partition.leader != log.broker_id:
            return
        committed = self._of(log)
        kept = committed.common(log)
        if kept == len(committed.places):
            return
        if committed.epochs[kept] >= leader_epoch:
            return  # it applies a leadership that has ended: others have committed since
        is_lost = (log.topic, log.partition) in self.disks[log.broker_id].lost
        has_lost = log.lost_end > 0 or is_lost
        may_lack = self.history.may_lack_records(partition, has_lost=has_lost)
        lacking = committed.places[kept][0]
        self._require(may_lack, "P4", f"leader of epoch {leader_epoch} lacks {lacking} in {log!r}")
        committed.lost.update(zip(committed.places[kept:], committed.batches[kept:], strict=True))
        del committed.places[kept:], committed.batches[kept:], committed.epochs[kept:]
        committed.losses.append(Loss(leader_epoch, lacking))
        first = committed.index_of(log)
        self._checked[log] = min(self._checked.get(log, 0), kept - first)

    def high_watermark_raised(self, log: SimPartitionLog) -> None:
        """Check P1 for the batches that are committed now."""
        committed = self._of(log)
        if committed.losses and log.latest_epoch < committed.losses[-1].leader_epoch:
            return  # its log still has records that an unclean election has discarded
        places = committed.places
        index = committed.reach(log, self._checked.get(log, 0))
        while index < len(log.batches):
            header, data = log.batches[index]
            if header.next_offset > log.high_watermark:
                break
            place = header.base_offset, crc32(data)
            at = bisect_left(places, (header.base_offset, 0))
            if at == len(places):
                places.append(place)
                committed.batches.append(data)
                committed.epochs.append(log.latest_epoch)
            # A follower that was away truncates to the start of an epoch, which may be where the
            # leader's log starts after a deletion, and then moves its log start. What it has below
            # that may be other batches, and more or fewer of them.
            is_deleted = header.next_offset <= committed.deleted_to
            is_same = place == places[at] or is_deleted
            self._require(is_same, "P1", f"{log!r} differs at {header.base_offset}")
            if index:
                end = log.batches[index - 1][0].next_offset
                is_whole = not committed.has_between(end, header.base_offset)
                self._require(is_whole, "P1", f"{log!r} lacks what is between {end} and {place[0]}")
            index += 1
        self._checked[log] = index

    def shortened(self, log: SimPartitionLog) -> None:
        """Compare again what is appended from here on."""
        self._checked[log] = min(self._checked.get(log, 0), len(log.batches))

    def deletion_requested(self, topic_id: Uuid, partition: int, offset: int) -> None:
        """Let logs start at this offset; -1 is the high watermark when the request arrives."""
        committed = self._committed.setdefault((topic_id, partition), _Committed())
        committed.deleted_to = max(committed.deleted_to, offset)
        committed.is_deleted_to_end = committed.is_deleted_to_end or offset < 0

    def start_moved(self, log: SimPartitionLog) -> None:
        """Check LS."""
        committed = self._of(log)
        start, deleted_to = log.log_start_offset, committed.deleted_to
        if committed.is_deleted_to_end:
            deleted_to = self.committed_end(log.topic_id, log.partition)
        what = f"{log!r} starts at {start}, records are deleted below {deleted_to}"
        self._require(start <= deleted_to, "LS", what)
        committed.deleted_to = max(committed.deleted_to, start)

    def committed_end(self, topic_id: Uuid, partition: int) -> int:
        """Return the offset after the last committed record of any leader."""
        committed = self._committed.get((topic_id, partition))
        batches = [] if committed is None else committed.batches
        return _next_offset(batches[-1]) if batches else 0

    def is_committed(self, topic_id: Uuid, partition: int, offset: int, batch: bytes) -> bool:
        """True when the batch is, or was before an unclean election, committed at this offset."""
        committed = self._committed.get((topic_id, partition))
        if committed is None:
            return False
        place, places = (offset, crc32(batch)), committed.places
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            if places[middle][0] < offset:
                low = middle + 1
            else:
                high = middle
        return (low < len(places) and places[low] == place) or place in committed.lost

    def epoch_of(self, topic_id: Uuid, partition: int, offset: int, batch: bytes) -> int:
        """Return the leader epoch in which an acknowledged batch was appended.

        A leader that does not know yet of an unclean election may have appended it.
        """
        committed = self._committed.get((topic_id, partition)) or _Committed()
        ((_, wanted),) = iter_batches(batch)
        place = bisect_left(committed.places, (offset, 0))
        known = committed.batches[place : place + 1]
        known += (data for (base, _), data in committed.lost.items() if base == offset)
        for data in known:
            ((_, header),) = iter_batches(data)
            if (header.base_offset, header.crc) == (offset, wanted.crc):
                return header.partition_leader_epoch
        what = f"{topic_id}-{partition} acknowledged {offset}, and no leader has committed it"
        self._require(bool(committed.losses), "P4", what)
        return committed.losses[-1].leader_epoch - 1

    def lost_batches(self, topic_id: Uuid, partition: int) -> list[bytes]:
        """Return the committed batches that an unclean election has discarded."""
        committed = self._committed.get((topic_id, partition))
        return [] if committed is None else list(committed.lost.values())

    def has_losses(self, topic_id: Uuid, partition: int) -> bool:
        """True when a leader was elected without all committed records."""
        committed = self._committed.get((topic_id, partition))
        return committed is not None and bool(committed.losses)

    def is_lost_uncleanly(self, topic_id: Uuid, partition: int, offset: int, epoch: int) -> bool:
        """True when an unclean election explains that a record of a leader epoch is absent."""
        committed = self._committed.get((topic_id, partition))
        losses = () if committed is None else committed.losses
        return any(loss.leader_epoch > epoch and loss.offset <= offset for loss in losses)

    def acks_all(self, partition: Partition, last_offset: int) -> None:
        """Check P3 at the moment of an acknowledgement.

        A disk may have lost the record since, and a reassignment may have removed the replica.
        """
        self.acknowledged += 1
        state = partition.leader_state
        members = () if state is None else state.isr.maximal
        for member in members:
            if not self.history.is_replica((partition.topic_id, partition.partition), member):
                continue
            disk, name = self.disks[member], (partition.topic, partition.partition)
            if name in disk.lost:
                continue
            log = disk.get(*name)
            has_it = log is not None and max(log.log_end_offset, log.lost_end) > last_offset
            self._require(
                has_it, "P3", f"{partition!r} acknowledged {last_offset} without {member}"
            )

    def check_end(self, leaders: Mapping[tuple[str, int], int]) -> None:
        """After a rest: the replicas of every partition have equal logs.

        A replica that led before may start later: its successor may lack a deletion.
        """
        for (topic, partition), leader in leaders.items():
            log = self.disks[leader].get(topic, partition)  # it is created on first use
            for disk in self.disks.values():
                other = disk.get(topic, partition)
                if other is None:
                    continue
                led_start = 0 if log is None else log.log_start_offset
                start = other.log_start_offset
                what = f"{other!r} starts at {start}, its leader at {led_start}"
                self._require(start >= led_start, "LIVENESS", what)
                records = b"" if log is None else log.records_from(start)
                is_equal = other.records() == records
                self._require(is_equal, "P1", f"{other!r} is not the leader's {log!r}")


def _next_offset(batch: bytes) -> int:
    ((_, header),) = iter_batches(batch)
    return header.next_offset


def _base_offset(batch: tuple[BatchHeader, bytes]) -> int:
    return batch[0].base_offset
