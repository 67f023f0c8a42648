"""Guards of the apis of idempotent producers and transactions."""

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.cluster.metadata.image import INTERNAL_TOPICS
from barnabas.cluster.metadata.topic_names import refusal
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.server.api.guards.guarded_answers import Answer, completed
from barnabas.server.api.handler_services import TransactionsContext
from barnabas.server.api.permissions import (
    MESSAGES,
    authorizer_of,
    may,
    may_on_cluster,
    parted,
    permitted,
    require_group,
    require_on_cluster,
    require_transactional_id,
)
from barnabas.server.api.registry import Handler

TOPIC, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TransactionState = DescribeTransactionsResponse.TransactionState

_BATCHED_VERSION = 4
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def init_producer_id(
    ctx: TransactionsContext, request: InitProducerIdRequest, handler: Handler
) -> Answer:
    """WRITE on the transactional id; without one, IDEMPOTENT_WRITE or WRITE on any topic."""
    code = _init_refusal(ctx, request)
    if code is not None:
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return handler(ctx, request)


def _init_refusal(ctx: TransactionsContext, request: InitProducerIdRequest) -> ErrorCode | None:
    transactional_id = request.transactional_id
    if transactional_id is None:
        if may_on_cluster(ctx, AclOperation.IDEMPOTENT_WRITE, log_denied=False):
            return None
        may_write = authorizer_of(ctx).authorize_by_type(
            ctx.connection, WRITE, TOPIC, request=ctx.route.name
        )
        return None if may_write else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    is_allowed = may(ctx, WRITE, TRANSACTIONAL_ID, transactional_id)
    if is_allowed and request.enable2_pc:
        is_allowed = may(ctx, AclOperation.TWO_PHASE_COMMIT, TRANSACTIONAL_ID, transactional_id)
    return None if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def add_partitions_to_txn(
    ctx: TransactionsContext, request: AddPartitionsToTxnRequest, handler: Handler
) -> Answer:
    """WRITE on the transactional id and on each topic; later versions are for brokers."""
    if ctx.version >= _BATCHED_VERSION:
        require_on_cluster(ctx, AclOperation.CLUSTER_ACTION)
        return handler(ctx, request)
    require_transactional_id(ctx, WRITE, request.v3_and_below_transactional_id)
    topics = request.v3_and_below_topics
    allowed = permitted(
        ctx,
        WRITE,
        TOPIC,
        [each.name for each in topics for _ in each.partitions if each.name not in INTERNAL_TOPICS],
    )
    if allowed.issuperset(each.name for each in topics):
        return handler(ctx, request)
    image = ctx.services.image()

    def outcome(name: str, number: int) -> ErrorCode:
        if name not in allowed:
            return _DENIED
        if image.partition(name, number) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                name=each.name,
                results_by_partition=[
                    AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=outcome(each.name, number)
                    )
                    for number in each.partitions
                ],
            )
            for each in topics
        ]
    )


def add_offsets_to_txn(
    ctx: TransactionsContext, request: AddOffsetsToTxnRequest, handler: Handler
) -> Answer:
    """WRITE on the transactional id, and READ on the group."""
    require_transactional_id(ctx, WRITE, request.transactional_id)
    require_group(ctx, READ, request.group_id)
    return handler(ctx, request)


def end_txn(ctx: TransactionsContext, request: EndTxnRequest, handler: Handler) -> Answer:
    """WRITE on the transactional id."""
    require_transactional_id(ctx, WRITE, request.transactional_id)
    return handler(ctx, request)


def write_txn_markers(
    ctx: TransactionsContext, request: WriteTxnMarkersRequest, handler: Handler
) -> Answer:
    """ALTER on the cluster, for an administrator, or CLUSTER_ACTION, for a broker."""
    if not may_on_cluster(ctx, AclOperation.ALTER, log_denied=False):
        require_on_cluster(ctx, AclOperation.CLUSTER_ACTION)
    return handler(ctx, request)


def txn_offset_commit(
    ctx: TransactionsContext, request: TxnOffsetCommitRequest, handler: Handler
) -> Answer:
    """WRITE on the transactional id, READ on the group, and READ on each topic."""
    require_transactional_id(ctx, WRITE, request.transactional_id)
    require_group(ctx, READ, request.group_id)
    request.topics, denied = parted(ctx, READ, TOPIC, request.topics, lambda topic: topic.name)
    answers = [
        TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=_DENIED
                )
                for partition in topic.partitions
            ],
        )
        for topic in denied
    ]

    def complete(response: TxnOffsetCommitResponse) -> None:
        response.topics = answers + response.topics

    return completed(handler(ctx, request), complete)


async def describe_transactions(
    ctx: TransactionsContext, request: DescribeTransactionsRequest, handler: Handler
) -> Answer:
    """DESCRIBE on each transactional id; topics that the sender may not describe are left out."""
    asked = request.transactional_ids
    allowed = [each for each in asked if may(ctx, DESCRIBE, TRANSACTIONAL_ID, each)]
    request.transactional_ids = allowed
    response: DescribeTransactionsResponse = await handler(ctx, request)
    for state in response.transaction_states:
        state.topics = [each for each in state.topics if may(ctx, DESCRIBE, TOPIC, each.topic)]
    answered = iter(response.transaction_states)
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    response.transaction_states = [
        next(answered)
        if each in allowed
        else TransactionState(transactional_id=each, error_code=code)
        for each in asked
    ]
    return response


def list_transactions(
    ctx: TransactionsContext, request: ListTransactionsRequest, handler: Handler
) -> Answer:
    """DESCRIBE on each transactional id that is listed."""

    def complete(response: ListTransactionsResponse) -> None:
        response.transaction_states = [
            each
            for each in response.transaction_states
            if may(ctx, DESCRIBE, TRANSACTIONAL_ID, each.transactional_id)
        ]

    return completed(handler(ctx, request), complete)


def describe_producers(
    ctx: TransactionsContext, request: DescribeProducersRequest, handler: Handler
) -> Answer:
    """READ on each topic; an invalid name is refused first."""
    asked = request.topics
    denied = {
        topic.name
        for topic in asked
        if refusal(topic.name) is None and not may(ctx, READ, TOPIC, topic.name)
    }
    request.topics = [topic for topic in asked if topic.name not in denied]

    def complete(response: DescribeProducersResponse) -> None:
        answered = iter(response.topics)
        response.topics = [
            _unread(topic) if topic.name in denied else next(answered) for topic in asked
        ]

    return completed(handler(ctx, request), complete)


def _unread(
    topic: DescribeProducersRequest.TopicRequest,
) -> DescribeProducersResponse.TopicResponse:
    return DescribeProducersResponse.TopicResponse(
        name=topic.name,
        partitions=[
            DescribeProducersResponse.PartitionResponse(
                partition_index=number, error_code=_DENIED, error_message=MESSAGES[_DENIED]
            )
            for number in topic.partition_indexes
        ],
    )
