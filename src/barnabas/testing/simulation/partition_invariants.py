"""Invariants of the partitions, checked at each change of each log.

P0  at most one broker appends to a partition in a leader epoch
P1  the records below the high watermark are the same on all replicas and never change
P2  a consumer sees only committed records
P3  a record that is acknowledged with acks=all is on every member of the maximal ISR
P4  an acknowledged record is in the log at the end
"""

from collections.abc import Mapping
from zlib import crc32

from barnabas.cluster.replication import Partition
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.sim_partition_log import LogObserver, SimLogs, SimPartitionLog

Key = tuple[Uuid, int]
Place = tuple[int, int]  # a base offset, and the crc of the batch


class PartitionInvariants(LogObserver):
    """Checks the invariants of all partitions; `disks` has the logs of each broker."""

    def __init__(self) -> None:
        self.disks: dict[int, SimLogs] = {}
        self.acknowledged = 0
        self._appenders: dict[tuple[Uuid, int, int], int] = {}
        self._committed: dict[Key, list[Place]] = {}
        self._checked: dict[SimPartitionLog, int] = {}

    def appended(self, log: SimPartitionLog, leader_epoch: int) -> None:
        """Check P0."""
        key = (log.topic_id, log.partition, leader_epoch)
        known = self._appenders.setdefault(key, log.broker_id)
        both = f"{known} and {log.broker_id}"
        require(known == log.broker_id, "P0", f"{both} append to {log!r} in {leader_epoch}")

    def high_watermark_raised(self, log: SimPartitionLog) -> None:
        """Check P1 for the batches that are committed now."""
        committed = self._committed.setdefault((log.topic_id, log.partition), [])
        index = self._checked.get(log, 0)
        while index < len(log.batches):
            header, data = log.batches[index]
            if header.next_offset > log.high_watermark:
                break
            place = header.base_offset, crc32(data)
            if index == len(committed):
                committed.append(place)
            require(place == committed[index], "P1", f"{log!r} differs at {header.base_offset}")
            index += 1
        self._checked[log] = index

    def shortened(self, log: SimPartitionLog) -> None:
        """Compare again what is appended from here on."""
        self._checked[log] = min(self._checked.get(log, 0), len(log.batches))

    def is_committed(self, topic_id: Uuid, partition: int, offset: int, batch: bytes) -> bool:
        """True when the batch is committed at this offset."""
        places = self._committed.get((topic_id, partition), [])
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            if places[middle][0] < offset:
                low = middle + 1
            else:
                high = middle
        return low < len(places) and places[low] == (offset, crc32(batch))

    def acks_all(self, partition: Partition, last_offset: int) -> None:
        """Check P3 at the moment of an acknowledgement."""
        self.acknowledged += 1
        state = partition.leader_state
        members = () if state is None else state.isr.maximal
        for member in members:
            log = self.disks[member].get(partition.topic, partition.partition)
            has_it = log is not None and log.log_end_offset > last_offset
            require(has_it, "P3", f"{partition!r} acknowledged {last_offset} without {member}")

    def check_end(self, leaders: Mapping[tuple[str, int], int]) -> None:
        """After a rest: the replicas of every partition have equal logs."""
        for (topic, partition), leader in leaders.items():
            log = self.disks[leader].get(topic, partition)
            require(log is not None, "P1", f"leader {leader} has no log of {topic}-{partition}")
            for disk in self.disks.values():
                other = disk.get(topic, partition)
                if other is None or log is None:
                    continue
                require(
                    other.records() == log.records(), "P1", f"{other!r} is not the leader's {log!r}"
                )
