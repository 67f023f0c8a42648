"""The invariants of partitions: what a leader must have when it starts its epoch."""

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.log import LogConfig
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import NOW_MS, batch
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
