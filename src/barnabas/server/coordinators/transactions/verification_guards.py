"""Guards against a transaction that ends while a write into it is being admitted.

Before a transaction's first write to a partition the coordinator is asked (KIP-890). Its answer
may take a while, and the transaction may be over by the time it arrives; then the write must not
be let in, or nothing would ever end it. A guard is made before asking; a marker breaks it; only
with an unbroken guard the write goes in (Kafka's `VerificationGuard`).
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
        """The guard to ask the coordinator under; `release` it in the end."""
        guard = self._guards.setdefault((topic, partition, producer_id), Guard())
        guard.holders += 1
        return guard

    def release(self, topic: str, partition: int, producer_id: int, guard: Guard) -> None:
        """The write was let in, or refused."""
        guard.holders -= 1
        key = topic, partition, producer_id
        if not guard.holders and self._guards.get(key) is guard:
            del self._guards[key]

    def transaction_ended(self, topic: str, partition: int, producer_id: int) -> None:
        """A marker is written: whoever is being admitted must ask again."""
        guard = self._guards.pop((topic, partition, producer_id), None)
        if guard is not None:
            guard.is_broken = True
