"""The invariants of partitions: what leaders and other replicas must have."""

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.log import LogConfig
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import NOW_MS, batch
from barnabas.testing.mirrored import as_sent, placed
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import InvariantError
from barnabas.testing.simulation.sim_partition_log import SimPartitionLog

TOPIC_ID = Uuid(b"t" * 16)


class Leaders:
    """Leaders by epoch, elected from the in-sync replicas."""

    def __init__(self, leaders: dict[int, int]) -> None:
        self._leaders = leaders

    def state(self, key: object, leader_epoch: int) -> Any:
        return SimpleNamespace(leader=self._leaders[leader_epoch])

    def may_lack_records(self, partition: object, *, has_lost: bool) -> bool:
        return False


class Replicas:
    """Brokers 1 and 2; broker 2 leads epoch 5, broker 1 epoch 7, broker 2 again epoch 8."""

    def __init__(self) -> None:
        self.invariants = PartitionInvariants(lambda error: None)
        self.invariants.history = Leaders({5: 2, 7: 1, 8: 2})  # type: ignore[assignment]
        self.logs: dict[int, SimPartitionLog] = {}
        for broker in (1, 2):
            self.invariants.disks[broker] = SimpleNamespace(lost=set[Any]())  # type: ignore[assignment]
            log = SimPartitionLog(broker, "t", 0, TOPIC_ID, LogConfig(), self.invariants)
            log.volume = SimpleNamespace(check=lambda: None)  # type: ignore[assignment]
            self.logs[broker] = log
        self.lead(2, 5)
        self.logs[2].append_as_leader(batch(b"a"), leader_epoch=5, now_ms=NOW_MS)

    def lead(self, broker: int, epoch: int) -> None:
        self.logs[broker].start_leader_epoch(epoch, self.logs[broker].log_end_offset)


def test_leader_whose_epoch_has_ended_may_lack_what_a_later_one_has_committed() -> None:
    """Broker 1 was cut off when it was elected, and applies its leadership after epoch 8."""
    replicas = Replicas()
    replicas.lead(2, 8)
    replicas.logs[2].advance_high_watermark(1)
    replicas.lead(1, 7)


def test_leader_lacks_nothing_that_was_committed_before_its_epoch() -> None:
    replicas = Replicas()
    replicas.logs[2].advance_high_watermark(1)
    with pytest.raises(InvariantError, match="P4: leader of epoch 7 lacks 0"):
        replicas.lead(1, 7)


def mirrored(log: SimPartitionLog, *offsets: int, end: int, epoch: int = 5) -> None:
    """Append batches of one record at these offsets, and commit up to `end`."""
    for offset in offsets:
        gap = offset - log.log_end_offset
        data = as_sent([placed(batch(b"%d" % offset), offset)], offset - gap)
        log.append_as_mirror(data, leader_epoch=epoch, now_ms=NOW_MS)
    log.advance_high_watermark(end)


def test_replica_may_have_more_batches_where_records_were_deleted() -> None:
    """It was away, and its leader's log has started again beyond them (seed 38)."""
    replicas = Replicas()
    leader, follower = replicas.logs[2], replicas.logs[1]
    mirrored(leader, 3, 9, 12, end=13, epoch=8)
    replicas.invariants.deletion_requested(TOPIC_ID, 0, 9)
    follower.append_as_follower(leader.batches[0][1], now_ms=NOW_MS)
    mirrored(follower, 3, 5, end=0, epoch=7)
    for _, data in leader.batches[2:]:  # 9 and 12
        follower.append_as_follower(data, now_ms=NOW_MS)
    follower.advance_high_watermark(13)


def test_replica_lacks_no_batch() -> None:
    replicas = Replicas()
    mirrored(replicas.logs[2], 3, 9, end=10)
    follower = replicas.logs[1]
    for _, data in (replicas.logs[2].batches[0], replicas.logs[2].batches[2]):
        follower.append_as_follower(data, now_ms=NOW_MS)
    with pytest.raises(InvariantError, match=r"P1: .* lacks what is between 1 and 9"):
        follower.advance_high_watermark(10)
