"""The apis of the transaction coordinator: add partitions and offsets, commit, abort, describe,
list.

AddPartitionsToTxn v0-3 comes from producers. v4-5 comes from brokers, for several transactions; it
adds partitions for producers of the second version, or only verifies them (KIP-890).
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from barnabas import tasks
from barnabas.coordinator.core.routing import partition_for
from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.coordinator.transactions.transaction_listing import Filters
from barnabas.coordinator.transactions.transaction_state import TV_0, TV_2
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from barnabas.server.api.flows import is_mirror
from barnabas.server.api.handler_services import TransactionsContext
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC

AskedTopic: TypeAlias = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
AskedTransaction: TypeAlias = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
TransactionResult: TypeAlias = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult: TypeAlias = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult: TypeAlias = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult

_BATCHED_VERSION = 4
# Older clients do not support PRODUCER_FENCED (KIP-588).
_FENCED_VERSION = 2
_EPOCH_BUMP_VERSION = 5


def _known_to(version: int, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_VERSION:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


# AddPartitionsToTxn


async def add_partitions_to_txn(
    context: TransactionsContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add partitions to transactions, or verify that they are in them."""
    if context.version >= _BATCHED_VERSION:
        return AddPartitionsToTxnResponse(
            results_by_transaction=await _add_each(context, request.transactions)
        )
    asked = AskedTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _add(context, asked, TV_0)
    )


async def _add_each(
    context: TransactionsContext, transactions: Sequence[AskedTransaction]
) -> list[TransactionResult]:
    """Return the results of several transactions, which wait for their commits together."""
    results = [TransactionResult(transactional_id=each.transactional_id) for each in transactions]

    async def add(asked: AskedTransaction, result: TransactionResult) -> None:
        result.topic_results = await _add(context, asked, TV_2)

    async with tasks.open_nursery() as nursery:
        for asked, result in zip(transactions, results, strict=True):
            nursery.start_soon(add, asked, result)
    return results


async def _add(
    context: TransactionsContext, asked: AskedTransaction, client_version: int
) -> list[TopicResult]:
    """Return one transaction's results; when a partition does not exist, or is a mirror's, none is
    added.
    """
    partitions = [(topic.name, each) for topic in asked.topics for each in topic.partitions]
    image = context.services.image()
    refused = {
        each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for each in partitions
        if image.partition(*each) is None
    }
    if not asked.verify_only:
        refused |= {
            each: ErrorCode.POLICY_VIOLATION
            for each in partitions
            if each not in refused and is_mirror(image, each[0])
        }
    if refused:
        return _results(
            asked.topics, lambda each: refused.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED)
        )
    producer = asked.transactional_id, asked.producer_id, asked.producer_epoch
    transactions = context.services.transactions
    outcomes: dict[TopicPartition, ErrorCode] = {}
    common = ErrorCode.NONE
    try:
        if asked.verify_only:
            outcomes = await transactions.verify_partitions(*producer, partitions)
        else:
            await transactions.add_partitions(*producer, partitions, client_version)
    except KafkaError as error:
        common = _known_to(context.version, error.code)
    return _results(asked.topics, lambda each: outcomes.get(each, common))


def _results(
    topics: list[AskedTopic], outcome: Callable[[TopicPartition], ErrorCode]
) -> list[TopicResult]:
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                PartitionResult(
                    partition_index=partition, partition_error_code=outcome((topic.name, partition))
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


# AddOffsetsToTxn


async def add_offsets_to_txn(
    context: TransactionsContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Add the partition of `__consumer_offsets` that holds a group's offsets."""
    services = context.services
    topic = services.image().topics_by_name.get(OFFSETS_TOPIC)
    count = (
        services.settings.current.get_int("offsets.topic.num.partitions")
        if topic is None
        else len(topic.partitions)
    )
    code = ErrorCode.NONE
    try:
        await services.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [(OFFSETS_TOPIC, partition_for(request.group_id, count))],
            TV_0,
        )
    except KafkaError as error:
        code = _known_to(context.version, error.code)
    return AddOffsetsToTxnResponse(error_code=code)


# EndTxn


async def end_txn(context: TransactionsContext, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort; answered when the outcome is committed, before the markers are written."""
    client_version = TV_2 if context.version >= _EPOCH_BUMP_VERSION else TV_0
    try:
        return await context.services.transactions.end_transaction(request, client_version)
    except KafkaError as error:
        return EndTxnResponse(error_code=_known_to(context.version, error.code))


# Descriptions


async def describe_transactions(
    context: TransactionsContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Return each transactional id's state, or its error."""
    states: list[DescribeTransactionsResponse.TransactionState] = []
    for transactional_id in request.transactional_ids:
        try:
            states.append(await context.services.transactions.describe(transactional_id))
        except KafkaError as error:
            states.append(
                DescribeTransactionsResponse.TransactionState(
                    transactional_id=transactional_id, error_code=error.code
                )
            )
    return DescribeTransactionsResponse(transaction_states=states)


async def list_transactions(
    context: TransactionsContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """Return the transactional ids that this node coordinates."""
    matches = None
    if request.transactional_id_pattern:
        matches = _matcher(request.transactional_id_pattern)
    filters = Filters.of(request, matches)
    try:
        states = await context.services.transactions.list_transactions(filters)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    return ListTransactionsResponse(
        unknown_state_filters=filters.unknown_states, transaction_states=states
    )


def _matcher(pattern: str) -> Callable[[str], object]:
    """Return a matcher of complete transactional ids. Raises INVALID_REGULAR_EXPRESSION."""
    re2: Any = import_module("re2")
    options = re2.Options()
    options.log_errors = False  # the client gets the error
    try:
        return re2.compile(pattern, options).fullmatch
    except re2.error as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
