"""Guards against a transaction that ends while its first write is being verified.

Before a transaction's first write to a partition the broker verifies it with the coordinator
(KIP-890). Until the response arrives the transaction may be over; a write after that would stay in
a transaction that never ends. A guard is created before the verification, a marker and a change of
leader break it, and only a write with an unbroken guard is accepted (Kafka's `VerificationGuard`).
"""

_Key = tuple[str, int, int]


class Guard:
    """One producer's first write to one partition; several requests may hold the same one."""

    __slots__ = ("holders", "is_broken")

    def __init__(self) -> None:
        self.holders = 0
        self.is_broken = False


class Guards:
    """The guards of all partitions, by topic, partition and producer id."""

    def __init__(self) -> None:
        self._guards: dict[_Key, Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def hold(self, topic: str, partition: int, producer_id: int) -> Guard:
        """Return the guard for a verification; call `release` at its end."""
        guard = self._guards.setdefault((topic, partition, producer_id), Guard())
        guard.holders += 1
        return guard

    def release(self, topic: str, partition: int, producer_id: int, guard: Guard) -> None:
        """Release a guard after the write was accepted or refused."""
        guard.holders -= 1
        key = topic, partition, producer_id
        if not guard.holders and self._guards.get(key) is guard:
            del self._guards[key]

    def leader_changed(self, topic: str, partition: int) -> None:
        """Break the partition's guards: another leader may have ended the transactions."""
        for key in [key for key in self._guards if key[:2] == (topic, partition)]:
            self._guards.pop(key).is_broken = True

    def transaction_ended(self, topic: str, partition: int, producer_id: int) -> None:
        """Break the guard, because a marker was written: the write must be verified again."""
        guard = self._guards.pop((topic, partition, producer_id), None)
        if guard is not None:
            guard.is_broken = True
