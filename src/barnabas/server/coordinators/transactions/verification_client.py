"""Asking a transactional id's coordinator, here or on another broker, before a first write.

Each other broker has at most one request in flight; further verifications for it wait and then
travel together. A request that fails is NETWORK_EXCEPTION, so the client retries its write.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.coordinator.transactions.transaction_state import TV_2
from barnabas.coordinator.transactions.verification_batches import (
    Verification,
    VerificationBatch,
    outcomes_of_verification,
    verification_request,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from barnabas.server.coordinators.broker_requests import BrokerRequests
from barnabas.server.coordinators.coordinator_turns import Waiter
from barnabas.server.coordinators.internal_topics import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.server.coordinators.transactions.transaction_service import TransactionCoordinator


class VerificationClient:
    """Verifies transactions for the partitions that this node leads."""

    def __init__(
        self,
        broker_id: int,
        image: "Callable[[], MetadataImage]",
        local: "TransactionCoordinator",
        brokers: BrokerRequests,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._local = local
        self._brokers = brokers
        self._batches: dict[int, VerificationBatch[Waiter]] = {}
        self._busy: set[int] = set()
        self.guards = local.guards

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the leader epoch of a partition; -1 when it does not exist."""
        image = self._image().partition(topic, partition)
        return -1 if image is None else image.leader_epoch

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        adds: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Return for each partition whether it is part of the transaction; with `adds`, add it.

        Raises KafkaError when that is the same for all.
        """
        wanted = tuple(partitions)
        producer = transactional_id, producer_id, producer_epoch
        leader = self._coordinator_of(transactional_id)
        if leader != self._broker_id:
            return await self._ask(leader, Verification(Waiter(), *producer, wanted, adds))
        if not adds:
            return await self._local.verify_partitions(*producer, wanted)
        await self._local.add_partitions(*producer, wanted, TV_2)
        return dict.fromkeys(wanted, ErrorCode.NONE)

    def _coordinator_of(self, transactional_id: str) -> int:
        index = self._local.partition_of(transactional_id)
        partition = None if index is None else self._image().partition(TRANSACTION_TOPIC, index)
        if partition is None or not (
            partition.leader == self._broker_id or self._brokers.is_reachable(partition.leader)
        ):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is unknown")
        return partition.leader

    async def _ask(
        self, broker_id: int, verification: Verification[Waiter]
    ) -> dict[TopicPartition, ErrorCode]:
        batch = self._batches.setdefault(broker_id, VerificationBatch())
        ended = batch.add(verification)
        if ended is not None:
            refused, code = ended
            refused.token.set(KafkaError(code, "another request of the producer is verified"))
        if broker_id not in self._busy:
            if not self._brokers.start_soon(self._run, broker_id):
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the node stops")
            self._busy.add(broker_id)
        return await verification.token.wait()

    async def _run(self, broker_id: int) -> None:
        """Send what waits for a coordinator, one request after the other."""
        batch = self._batches[broker_id]
        try:
            while taken := batch.take():
                await self._request(broker_id, taken)
        finally:
            self._busy.discard(broker_id)

    async def _request(self, broker_id: int, taken: list[Verification[Waiter]]) -> None:
        try:
            response = await self._brokers.ask(
                broker_id, verification_request(taken), AddPartitionsToTxnResponse
            )
        except KafkaError as error:
            for verification in taken:
                verification.token.set(error)
            return
        for verification in taken:
            verification.token.set(outcomes_of_verification(verification, response))
