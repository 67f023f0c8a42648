"""The in-sync replicas (ISR) of a partition as its leader knows them (Kafka's `PartitionState`).

A leader changes the ISR through the controller, and between its request and the answer it does not
know which of the two sets is in force. So it keeps both: the *committed* ISR is the last one that
the controller confirmed; the *maximal* ISR has every replica that may be in the set now.

    state       committed ISR    maximal ISR
    committed   the ISR          the ISR
    expanding   the old ISR      with the joining replica
    shrinking   the old ISR      the old ISR

The high watermark and the answers of acks=all count the maximal ISR; a write is admitted by the
size of the committed one (KIP-497, KIP-841).
"""

from collections.abc import Iterable

import attrs


@attrs.frozen(slots=True, eq=False)
class IsrState:
    """The ISR, and the set proposed to the controller (None: no change is pending).

    Each proposal is another object: its answer counts only while that object is the state.
    """

    committed: tuple[int, ...]
    maximal: tuple[int, ...]
    proposed: tuple[int, ...] | None = None

    @classmethod
    def of(cls, isr: tuple[int, ...]) -> "IsrState":
        """Return the state of a committed ISR."""
        return cls(isr, isr)

    @property
    def is_pending(self) -> bool:
        """True while a proposal has no answer."""
        return self.proposed is not None

    @property
    def is_expanding(self) -> bool:
        """True while a replica is about to join."""
        return self.proposed is not None and len(self.proposed) > len(self.committed)

    def expanded(self, replica: int) -> "IsrState":
        """Return the state that proposes to add a replica."""
        grown = (*self.committed, replica)
        return IsrState(self.committed, grown, grown)

    def shrunk(self, replicas: Iterable[int]) -> "IsrState":
        """Return the state that proposes to remove replicas."""
        removed = frozenset(replicas)
        left = tuple(replica for replica in self.committed if replica not in removed)
        return IsrState(self.committed, self.committed, left)

    def rolled_back(self) -> "IsrState":
        """Return the state without its proposal, which the controller certainly did not apply."""
        return IsrState.of(self.committed)
