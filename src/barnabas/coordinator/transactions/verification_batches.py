"""Verifications of transactional writes, for a coordinator on another broker (KIP-890).

The leader of a partition asks the coordinator before a transaction's first write. While one request
is in flight, further ones wait and then travel together. Kafka: AddPartitionsToTxnManager.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

import attrs

from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)

TokenT = TypeVar("TokenT")


@attrs.frozen
class Verification(Generic[TokenT]):
    """One producer's question about some partitions; `token` is for its outcome.

    With `adds`, the coordinator adds the partitions to the transaction; otherwise they must be in
    it.
    """

    token: TokenT
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool


class VerificationBatch(Generic[TokenT]):
    """The verifications that wait for one coordinator, one for each transactional id."""

    def __init__(self) -> None:
        self._waiting: dict[str, Verification[TokenT]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(
        self, verification: Verification[TokenT]
    ) -> tuple[Verification[TokenT], ErrorCode] | None:
        """Add a verification; return the one that ends instead of it, and the error.

        A producer of a lower epoch is fenced. One of the same epoch has probably sent its request
        again, so the earlier request gets a retriable error.
        """
        earlier = self._waiting.get(verification.transactional_id)
        if earlier is not None and earlier.producer_epoch > verification.producer_epoch:
            return verification, ErrorCode.INVALID_PRODUCER_EPOCH
        self._waiting[verification.transactional_id] = verification
        if earlier is None:
            return None
        if earlier.producer_epoch < verification.producer_epoch:
            return earlier, ErrorCode.INVALID_PRODUCER_EPOCH
        return earlier, ErrorCode.NETWORK_EXCEPTION

    def take(self) -> list[Verification[TokenT]]:
        """Remove and return all verifications, for one request."""
        taken, self._waiting = self._waiting, {}
        return list(taken.values())


def verification_request(
    verifications: Iterable[Verification[TokenT]],
) -> AddPartitionsToTxnRequest:
    """Return the request of v4 and later for verifications of different transactional ids."""
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                verify_only=not each.adds,
                topics=_topics(each.partitions),
            )
            for each in verifications
        ]
    )


def _topics(
    partitions: Iterable[TopicPartition],
) -> list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=indexes)
        for topic, indexes in by_topic.items()
    ]


def outcomes_of_verification(
    verification: Verification[TokenT], response: AddPartitionsToTxnResponse
) -> dict[TopicPartition, ErrorCode]:
    """Return the coordinator's answer for each partition.

    A partition that the response lacks is not verified: INVALID_TXN_STATE. The client must not see
    that this broker is not authorized, so that becomes INVALID_TXN_STATE, too.
    """
    common = error_code(response.error_code)
    if common in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        missing = ErrorCode.INVALID_TXN_STATE
    else:
        missing = common
    outcomes = dict.fromkeys(verification.partitions, missing)
    if common is ErrorCode.NONE:
        for result in response.results_by_transaction:
            if result.transactional_id == verification.transactional_id:
                for topic in result.topic_results:
                    for answer in topic.results_by_partition:
                        code = error_code(answer.partition_error_code)
                        outcomes[topic.name, answer.partition_index] = code
    return outcomes
