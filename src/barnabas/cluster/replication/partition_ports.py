"""The surroundings of a partition: the broker that has it, and those who wait for it."""

from typing import TYPE_CHECKING, Protocol

from barnabas.clock import Clock
from barnabas.cluster.replication.isr_manager import IsrProposal
from barnabas.cluster.replication.leader_state import BrokerRegistry
from barnabas.cluster.replication.line_budget import LineBudget
from barnabas.log import PartitionLog

if TYPE_CHECKING:
    from barnabas.cluster.replication.partition import Partition


class PartitionListener(Protocol):
    """A waiter for a partition: a parked fetch, a fetch session, a pending produce."""

    def partition_changed(self, partition: "Partition") -> None:
        """React to a change of log end, high watermark, log start or leadership; must return
        quickly.
        """
        ...


class PartitionHost(BrokerRegistry, Protocol):
    """The broker that has a partition, as the partition sees it."""

    broker_id: int
    isr_lines: LineBudget
    """The limit of the log lines about changes of ISRs."""
    clock: Clock

    def open_log(self, partition: "Partition", create: bool) -> PartitionLog | None:
        """Return the partition's log; None when it does not exist and is not to be created."""
        ...

    def propose_isr(self, proposal: IsrProposal) -> None:
        """Send a change of the ISR to the controller."""
        ...

    def isr_changed(self, *, expanded: bool) -> None:
        """Count a change of an ISR that the controller confirmed."""
        ...
