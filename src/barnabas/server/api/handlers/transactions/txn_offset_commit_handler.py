"""TxnOffsetCommit v0-5: offsets that take effect when the producer's transaction commits.

The partition of `__consumer_offsets` must be in the transaction: AddOffsetsToTxn adds it, or, since
v5, the write itself does (KIP-890).
"""

from contextlib import AsyncExitStack
from typing import TypeAlias

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas.server.api.handler_services import TransactionsContext
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.server.coordinators.transactions.transaction_verification import (
    Admission,
    Support,
)

AskedTopic: TypeAlias = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
AnsweredTopic: TypeAlias = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
AnsweredPartition: TypeAlias = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition

_LOADING_VERSION = 2
_ABORTABLE_VERSION = 4
_ADDS_VERSION = 5

_CODES = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


async def txn_offset_commit(
    context: TransactionsContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Commit offsets; partitions that do not exist are refused here."""
    image = context.services.image()
    accepted: list[AskedTopic] = []
    answers: list[AnsweredTopic] = []
    for topic in request.topics:
        there = [p for p in topic.partitions if image.partition(topic.name, p.partition_index)]
        if there:
            accepted.append(AskedTopic(name=topic.name, partitions=there))
        if len(there) < len(topic.partitions):
            missing = [p.partition_index for p in topic.partitions if p not in there]
            answers.append(_answer(topic.name, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if not accepted:
        return TxnOffsetCommitResponse(topics=answers)
    request.topics = accepted
    try:
        decided = (await _commit(context, request)).topics
    except KafkaError as error:
        code = _client_error(error.code, context.version)
        decided = [
            _answer(topic.name, [p.partition_index for p in topic.partitions], code)
            for topic in accepted
        ]
    refused = {topic.name: topic for topic in answers}
    for topic in decided:
        if topic.name in refused:
            refused[topic.name].partitions += topic.partitions
        else:
            answers.append(topic)
    return TxnOffsetCommitResponse(topics=answers)


async def _commit(
    context: TransactionsContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    services = context.services
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    index = services.groups.partition_for_key(request.group_id).index
    partition = services.replicas.partition(OFFSETS_TOPIC, index)
    producer = request.producer_id, request.producer_epoch
    support = _support(context.version)
    verifies = services.settings.current.get("transaction.partition.verification.enable")
    asks = verifies or support is Support.ADDS
    asked = (OFFSETS_TOPIC, index)

    def check_epoch() -> None:
        """Refuse an old epoch first: INVALID_PRODUCER_EPOCH ends only the transaction."""
        # The log checks only the epochs of client writes.
        partition.log.producers.check_epoch(*producer)

    check_epoch()
    async with AsyncExitStack() as stack:
        admission: Admission | None = None
        if asks and not partition.log.producers.is_in_transaction(*producer):
            admission = await stack.enter_async_context(
                services.admission(support, request.transactional_id, *producer, [asked])
            )

        def check() -> None:
            """Raise when the transaction ended while the commit waited."""
            check_epoch()
            if asks and not partition.log.producers.is_in_transaction(*producer):
                code = admission.outcome(asked) if admission else ErrorCode.INVALID_TXN_STATE
                if code is not ErrorCode.NONE:
                    raise KafkaError(code, "the group's offsets are not in the transaction")

        return await services.groups.commit_transactional_offsets(request, check)


def _support(version: int) -> Support:
    if version >= _ADDS_VERSION:
        return Support.ADDS
    return Support.ABORTABLE if version >= _ABORTABLE_VERSION else Support.DEFAULT


def _client_error(code: ErrorCode, version: int) -> ErrorCode:
    """Translate an error as GroupCoordinatorService does; early clients do not support loading."""
    code = _CODES.get(code, code)
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_VERSION:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _answer(topic: str, partitions: list[int], code: ErrorCode) -> AnsweredTopic:
    return AnsweredTopic(
        name=topic,
        partitions=[
            AnsweredPartition(partition_index=index, error_code=code) for index in partitions
        ],
    )
