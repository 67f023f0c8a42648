"""Verify a transactional partition with its coordinator before the first write (KIP-890).

Producers of the first version add partitions themselves (AddPartitionsToTxn), so the broker only
verifies that. For producers of the second version the broker adds the partition with the write.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol

from barnabas import tasks
from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.coordinators.transactions.verification_guards import Guard, Guards

if TYPE_CHECKING:
    from barnabas.config.subscriptions import ConfigSubscriptions


class Support(Enum):
    """The client's support, by the version of its request (`TransactionSupportedOperation`)."""

    DEFAULT = "does not support TRANSACTION_ABORTABLE"
    ABORTABLE = "supports it"
    ADDS = "leaves adding partitions to the broker"


_PASSING: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Verifier(Protocol):
    """The way to the transaction coordinators, here or on other brokers."""

    guards: Guards

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the leader epoch of a partition; -1 when it does not exist."""
        ...

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return for each partition whether it is part of the transaction; with `adds`, add it.

        Raises KafkaError when that is the same for all.
        """
        ...


class Admission:
    """The verification of one request's first writes, and the guards that hold meanwhile.

    `async with Admission(...) as admission:` verifies; `check_write` raises for a refused
    partition.
    """

    def __init__(
        self,
        verifier: Verifier,
        settings: "ConfigSubscriptions",
        support: Support,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> None:
        self._verifier = verifier
        self._settings = settings
        self.support = support
        self._transactional_id = transactional_id
        self._producer = producer_id, producer_epoch
        self._partitions = list(partitions)
        self._guards: dict[TopicPartition, Guard] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._outcomes: dict[TopicPartition, ErrorCode] = {}

    async def __aenter__(self) -> "Admission":
        try:
            await self._ask()
        except BaseException:
            self._release()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._release()

    def _release(self) -> None:
        guards = self._verifier.guards
        for (topic, number), guard in self._guards.items():
            guards.release(topic, number, self._producer[0], guard)
        self._guards.clear()

    def outcome(self, partition: TopicPartition) -> ErrorCode:
        """Return NONE for a partition that may be written to now, else the error.

        The coordinator's error comes first. When it accepted the partition, but a marker or another
        leader came after that, the client tries again.
        """
        code = self._outcomes.get(partition, ErrorCode.INVALID_TXN_STATE)
        if code is ErrorCode.NONE and self._is_outdated(partition):
            return ErrorCode.NETWORK_EXCEPTION
        return code

    def _is_outdated(self, partition: TopicPartition) -> bool:
        """True when the transaction may have ended since the coordinator answered.

        Another leader may have ended it, too, so a new leader epoch counts like a broken guard.
        """
        guard = self._guards.get(partition)
        if guard is None or guard.is_broken:
            return True
        return self._verifier.leader_epoch(*partition) != self._leader_epochs[partition]

    def check_write(self, partition: TopicPartition) -> None:
        """Raise the error that Produce answers for a refused partition.

        Transient errors become NOT_ENOUGH_REPLICAS, which every client retries. Only clients of the
        second version expect CONCURRENT_TRANSACTIONS from Produce.
        """
        code = self.outcome(partition)
        if code is ErrorCode.NONE:
            return
        if code in _PASSING and not (
            code is ErrorCode.CONCURRENT_TRANSACTIONS and self.support is Support.ADDS
        ):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                "Unable to verify the partition has been added to the transaction. Underlying "
                f"error: {code.name}",
            )
        raise KafkaError(code, "Partition was not added to the transaction")

    # Verification

    async def _ask(self) -> None:
        """Verify, and retry for a limited time where a retry helps (KIP-890, part 2)."""
        config = self._settings.current
        wait_s = config.get_int("add.partitions.to.txn.retry.backoff.ms") / 1000
        most_s = config.get_int("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        deadline = tasks.current_time() + most_s
        while True:
            self._hold()
            await self._ask_once()
            if not self._is_worth_a_retry() or tasks.current_time() + wait_s > deadline:
                return
            await tasks.sleep(wait_s)

    def _hold(self) -> None:
        """Hold new guards: a broken one refuses every later attempt."""
        self._release()
        guards = self._verifier.guards
        for topic, number in self._partitions:
            self._guards[topic, number] = guards.hold(topic, number, self._producer[0])
            self._leader_epochs[topic, number] = self._verifier.leader_epoch(topic, number)

    async def _ask_once(self) -> None:
        producer = self._transactional_id, *self._producer
        adds = self.support is Support.ADDS
        try:
            told = await self._verifier.verify(*producer, self._partitions, adds=adds)
        except KafkaError as error:
            told = dict.fromkeys(self._partitions, error.code)
        self._outcomes = {partition: self._translated(code) for partition, code in told.items()}

    def _is_worth_a_retry(self) -> bool:
        """True while the previous transaction is being ended, or when a guard alone has failed."""
        is_early = ErrorCode.CONCURRENT_TRANSACTIONS in self._outcomes.values()
        if is_early and self.support is Support.ADDS:
            return True
        return any(
            code is ErrorCode.NONE and self._is_outdated(partition)
            for partition, code in self._outcomes.items()
        )

    def _translated(self, code: ErrorCode) -> ErrorCode:
        """Translate an error as AddPartitionsToTxnManager does."""
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.TRANSACTION_ABORTABLE and self.support is Support.DEFAULT:
            return ErrorCode.INVALID_TXN_STATE
        return code
