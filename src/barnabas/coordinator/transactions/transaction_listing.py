"""Transactions in ListTransactions and DescribeTransactions."""

from collections.abc import Callable

import attrs

from barnabas.coordinator.transactions.transaction import Transaction
from barnabas.coordinator.transactions.transaction_state import STATES_BY_LABEL, TransactionState
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsResponse
from barnabas.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)


@attrs.frozen
class Filters:
    """The filters of ListTransactions; an empty one passes all.

    `longer_than_ms` is negative for any age. `unknown_states` are names that are not states.
    """

    states: frozenset[TransactionState]
    unknown_states: list[str]
    by_state: bool
    producer_ids: frozenset[int]
    longer_than_ms: int
    matches: Callable[[str], object] | None

    @classmethod
    def of(
        cls, request: ListTransactionsRequest, matches: Callable[[str], object] | None
    ) -> "Filters":
        """Return a request's filters; `matches` matches transactional ids with its pattern."""
        names = request.state_filters
        return cls(
            states=frozenset(STATES_BY_LABEL[name] for name in names if name in STATES_BY_LABEL),
            unknown_states=[name for name in names if name not in STATES_BY_LABEL],
            by_state=bool(names),
            producer_ids=frozenset(request.producer_id_filters),
            longer_than_ms=request.duration_filter,
            matches=matches,
        )

    def passes(self, transaction: Transaction, now_ms: int) -> bool:
        """True when the transaction passes all filters."""
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.by_state and transaction.state not in self.states:
            return False
        if self.longer_than_ms >= 0 and now_ms - transaction.start_ms <= self.longer_than_ms:
            return False
        return self.matches is None or bool(self.matches(transaction.transactional_id))


def listed(transaction: Transaction) -> ListTransactionsResponse.TransactionState:
    """Return a transaction's entry in ListTransactions."""
    return ListTransactionsResponse.TransactionState(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.label,
    )


def described(transaction: Transaction) -> DescribeTransactionsResponse.TransactionState:
    """Return a transaction's entry in DescribeTransactions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return DescribeTransactionsResponse.TransactionState(
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            DescribeTransactionsResponse.TopicData(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
