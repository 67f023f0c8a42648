"""A broker that hosts one partition, for tests of its rules."""

from collections.abc import Callable
from typing import Any

import attrs

from barnabas.clock import Clock
from barnabas.cluster.metadata.image import BrokerImage
from barnabas.cluster.replication import Partition
from barnabas.cluster.replication.isr_manager import IsrProposal
from barnabas.cluster.replication.line_budget import LineBudget
from barnabas.log import PartitionLog
from barnabas.protocol.types import ZERO_UUID

LAG_MS = 30_000


def broker(broker_id: int, **changes: Any) -> BrokerImage:
    """Return an active broker; its epoch is ten times its id."""
    image = BrokerImage(
        id=broker_id,
        epoch=broker_id * 10,
        incarnation_id=ZERO_UUID,
        endpoints={},
        features={},
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
        directories=(),
    )
    return attrs.evolve(image, **changes)


class FakeHost:
    """`PartitionHost` with a clock that the test sets."""

    replica_lag_time_max_ms = LAG_MS

    def __init__(self, broker_id: int, open_log: Callable[[], PartitionLog]) -> None:
        self.broker_id = broker_id
        self.now_ms = 1_000_000
        self.isr_lines = LineBudget()
        self.clock = Clock(lambda: self.now_ms, lambda: self.now_ms)
        self.brokers = {number: broker(number) for number in (1, 2, 3)}
        self.proposals: list[IsrProposal] = []
        self.changes: list[str] = []
        self._open_log = open_log

    def registered_broker(self, broker: int) -> BrokerImage | None:
        return self.brokers.get(broker)

    def open_log(self, partition: Partition, create: bool) -> PartitionLog:
        return self._open_log()

    def propose_isr(self, proposal: IsrProposal) -> None:
        self.proposals.append(proposal)

    def isr_changed(self, *, expanded: bool) -> None:
        self.changes.append("expanded" if expanded else "shrunk")
