"""Transactions to and from the records of `__transaction_state` (Kafka's `TransactionLog`)."""

from barnabas.coordinator.core.coordinator_output import Record
from barnabas.coordinator.transactions.transaction import Transaction
from barnabas.coordinator.transactions.transaction_state import EMPTY, TV_1, TransactionState
from barnabas.protocol.records.transaction_records import TransactionLogKey, TransactionLogValue

_PartitionsSchema = TransactionLogValue.PartitionsSchema


def transaction_record(transaction: Transaction, transaction_version: int) -> Record:
    """Return a transaction's record; its version is flexible since `transaction.version` 1."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if transaction.state is EMPTY
        else [_PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()],
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    version = 0
    if transaction_version >= TV_1:
        version = 1
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return Record(TransactionLogKey(transactional_id=transaction.transactional_id), value, version)


def tombstone(transactional_id: str) -> Record:
    """Return the removal of a transactional id."""
    return Record(TransactionLogKey(transactional_id=transactional_id), None)


def read_transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """Return the transaction of a record. Raises ValueError for an unknown state."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            (schema.topic, partition)
            for schema in value.transaction_partitions or ()
            for partition in schema.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
