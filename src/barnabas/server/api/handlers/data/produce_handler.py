"""Produce: append batches to logs (versions 3-13).

The plain case reads only each batch's header. A response that waits for followers or for a flush is
a `Deferred`, so that the connection's next Produce may start meanwhile. Two cases delay the next
request, as nothing is appended before they resume: a transaction's first write, which the
coordinator verifies, and a large batch whose records a helper process examines.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.cluster.replication.partition import NEVER_FLUSH
from barnabas.log import RecordsRefusedError
from barnabas.log.record_work import Outcomes, RecordWorkNeeded
from barnabas.protocol.batches.batch_layout import (
    ATTRIBUTES_LOW_AT,
    CODEC_MASK,
    HEADER_SIZE,
    LEGACY_LENGTH_MIN,
    LENGTH,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
)
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.server.api.context import Deferred
from barnabas.server.api.handler_services import DataContext
from barnabas.server.api.handlers.data.current_leader import current_leader
from barnabas.server.api.handlers.data.mirror_produce import append_mirrored
from barnabas.server.api.handlers.data.pending_produce import resolve_when_committed
from barnabas.server.api.handlers.data.transactional_produce import (
    check_transactional,
    needed_admission,
)
from barnabas.server.replication.commit_wait import Appended
from barnabas.server.storage.record_worker import RecordWorkError

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition
    from barnabas.log import AppendInfo
    from barnabas.server.coordinators.transactions.transaction_verification import Admission

PartitionResponse = ProduceResponse.PartitionProduceResponse
TopicResponse = ProduceResponse.TopicProduceResponse

_TOPIC_IDS_VERSION = 13
_LEADERS_VERSION = 10
_ZSTD_VERSION = 7

_ACKS_ALL = -1
_ADMIN_CLIENT = "__admin_client"  # may write to internal topics (AdminUtils.ADMIN_CLIENT_ID)

# Errors of the log's state; Kafka adds the log start offset to them.
_REFUSED_BY_STATE = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)

Answer = ProduceResponse | Deferred | None
Pending = list[Appended[PartitionResponse]]
"""The answers whose records are not yet committed."""
Postponed = tuple[PartitionResponse, "Partition", Any, RecordWorkNeeded]
"""An incomplete answer, its partition and records, and the work that they need."""


def produce(context: DataContext, request: ProduceRequest) -> Answer | Coroutine[Any, Any, Answer]:
    """Append every batch; with acks=0 there is no response, and an error closes the connection."""
    quota = context.services.quotas.produce
    if quota is not None:
        quota.charge(context, context.size)
    if request.transactional_id is not None:
        admission = needed_admission(context, request, request.transactional_id)
        if admission is not None:
            return _produce_admitted(context, request, admission)
    return _produce(context, request, None)


async def _produce_admitted(
    context: DataContext, request: ProduceRequest, admission: "Admission"
) -> Answer:
    async with admission:
        answer = _produce(context, request, admission)
        return await answer if isinstance(answer, Coroutine) else answer


def _produce(
    context: DataContext, request: ProduceRequest, admission: "Admission | None"
) -> Answer | Coroutine[Any, Any, Answer]:
    acks = request.acks
    replicas = context.services.replicas
    by_id = context.version >= _TOPIC_IDS_VERSION
    pending: Pending = []
    postponed: list[Postponed] = []
    failed = False
    topics: list[TopicResponse] = []
    now_ms = context.services.clock.wall_ms()
    for topic in request.topic_data:
        answers: list[PartitionResponse] = []
        for data in topic.partition_data:
            answer = PartitionResponse(index=data.index)
            answers.append(answer)
            partition = None
            try:
                if by_id:
                    partition = replicas.partition_by_id(topic.topic_id, data.index)
                else:
                    partition = replicas.partition(topic.name, data.index)
                info = _append(context, request, partition, data.records, now_ms, admission, {})
            except KafkaError as error:
                _refuse(answer, error, partition)
                failed = True
                continue
            except RecordWorkNeeded as needed:
                if partition is not None:
                    postponed.append((answer, partition, data.records, needed))
                continue
            _accept(answer, info, partition)
            if _waits(partition, info, acks):
                pending.append(_appended(answer, partition, info))
        if by_id:
            topics.append(TopicResponse(topic_id=topic.topic_id, partition_responses=answers))
        else:
            topics.append(TopicResponse(name=topic.name, partition_responses=answers))
    response = ProduceResponse(responses=topics)
    if postponed:
        later = _append_postponed(context, request, admission, postponed, pending)
        return _answer_later(context, request, response, pending, later, failed=failed)
    return _answer(context, request, response, pending, failed=failed)


async def _append_postponed(
    context: DataContext,
    request: ProduceRequest,
    admission: "Admission | None",
    postponed: "list[Postponed]",
    pending: Pending,
) -> bool:
    """Append each batch once a helper process has examined its records; return True when one
    failed.

    The append makes all other checks, so they see the partition at that time.
    """
    services, failed = context.services, False
    for answer, partition, data, needed in postponed:

        def append(done: Outcomes, data: Any = data, to: "Partition" = partition) -> "AppendInfo":
            return _append(context, request, to, data, services.clock.wall_ms(), admission, done)

        try:
            info = await services.records.resolve(append, needed)
        except KafkaError as error:
            _refuse(answer, error, partition)
            failed = True
        except RecordWorkError as error:
            # The retriable error that says that nothing was written.
            _refuse(answer, KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, str(error)), partition)
            failed = True
        else:
            _accept(answer, info, partition)
            if _waits(partition, info, request.acks):
                pending.append(_appended(answer, partition, info))
    return failed


async def _answer_later(
    context: DataContext,
    request: ProduceRequest,
    response: ProduceResponse,
    pending: Pending,
    later: Coroutine[Any, Any, bool],
    *,
    failed: bool,
) -> Answer:
    failed = await later or failed
    return _answer(context, request, response, pending, failed=failed)


def _answer(
    context: DataContext,
    request: ProduceRequest,
    response: ProduceResponse,
    pending: Pending,
    *,
    failed: bool,
) -> Answer:
    if request.acks == 0:
        if failed:
            context.connection.close()
        if pending:  # flush without a response
            resolve_when_committed(context.services.commits, request, response, pending)
        return None
    if failed and context.version >= _LEADERS_VERSION:
        _add_leaders(context, response)
    if pending:
        return resolve_when_committed(context.services.commits, request, response, pending)
    return response


def _accept(answer: PartitionResponse, info: "AppendInfo", partition: "Partition") -> None:
    answer.base_offset = info.first_offset
    answer.log_append_time_ms = info.log_append_time_ms
    answer.log_start_offset = partition.log.log_start_offset


def _waits(partition: "Partition", info: "AppendInfo", acks: int) -> bool:
    """True when the response waits for the disk or for followers."""
    return partition.flush_messages != NEVER_FLUSH or (
        acks == _ACKS_ALL and partition.log.high_watermark <= info.last_offset
    )


def _appended(
    answer: PartitionResponse, partition: "Partition", info: "AppendInfo"
) -> Appended[PartitionResponse]:
    """Return what waits to be committed, right after its append."""
    return Appended(answer, partition, info.last_offset, partition.leader_state)


def _append(
    context: DataContext,
    request: ProduceRequest,
    partition: "Partition",
    data: Any,
    now_ms: int,
    admission: "Admission | None",
    done: Outcomes,
) -> "AppendInfo":
    version = context.version
    records: memoryview = memoryview(b"") if data is None else data
    mirror = partition.mirror
    if mirror is not None:
        info = append_mirrored(context, partition, mirror, records, request.acks, now_ms)
        if info is not None:
            return info
    plain = (
        len(records) > HEADER_SIZE
        and LENGTH.unpack_from(records, LENGTH_AT)[0] + LOG_OVERHEAD == len(records)
        and records[MAGIC_AT] == MAGIC
    )
    if not plain:
        records = _only_batch(records, version)
    attributes = records[ATTRIBUTES_LOW_AT]
    if attributes & TRANSACTIONAL:
        check_transactional(context, request, partition, records, admission)
    if version < _ZSTD_VERSION and attributes & CODEC_MASK == Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    if partition.is_internal and context.client_id != _ADMIN_CLIENT:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {partition.topic}"
        )
    if request.acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}")
    return partition.append(
        records, required_acks=request.acks, origin="client", now_ms=now_ms, done=done
    )


def _only_batch(records: memoryview, version: int) -> memoryview:
    """Return the single batch of a partition's records, without a torn batch after it.

    Raises INVALID_RECORD unless there is exactly one and it is of magic 2, and CORRUPT_MESSAGE
    where its length or magic is impossible (`ProduceRequest.validateRecords`).
    """
    sizes: list[int] = []
    position, end = 0, len(records)
    while len(sizes) < 2 and end - position > LOG_OVERHEAD:
        size: int = LENGTH.unpack_from(records, position + LENGTH_AT)[0]
        if size < LEGACY_LENGTH_MIN:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Record size {size} is less than the minimum record overhead "
                f"({LEGACY_LENGTH_MIN})",
            )
        size += LOG_OVERHEAD
        magic = records[position + MAGIC_AT] if end - position > MAGIC_AT else 0
        if magic > MAGIC:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
        if size > end - position:
            break
        if magic < MAGIC:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"Produce requests with version {version} are only allowed to contain record "
                "batches with magic version 2",
            )
        sizes.append(size)
        position += size
    if len(sizes) != 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} must have exactly one record batch per "
            "partition",
        )
    if sizes[0] < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record batch of {sizes[0]} bytes")
    return records[: sizes[0]]


def _refuse(answer: PartitionResponse, error: KafkaError, partition: "Partition | None") -> None:
    answer.error_code = error.code
    answer.base_offset = -1
    answer.error_message = error.message or None
    of_records = isinstance(error, RecordsRefusedError) or error.code in _REFUSED_BY_STATE
    if of_records and partition is not None:
        answer.log_start_offset = partition.log.log_start_offset
    if isinstance(error, RecordsRefusedError):
        answer.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(
                batch_index=index, batch_index_error_message=message
            )
            for index, message in error.record_errors
        ]


def _add_leaders(context: DataContext, response: ProduceResponse) -> None:
    """Add the leader for partitions of the wrong broker (KIP-951)."""
    by_id = context.services.replicas.image.topics_by_id
    endpoints: dict[int, ProduceResponse.NodeEndpoint] = {}
    for topic in response.responses:
        name = topic.name
        if context.version >= _TOPIC_IDS_VERSION:
            found = by_id.get(topic.topic_id)
            name = "" if found is None else found.name
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            leader, epoch, endpoint, rack = current_leader(context, name, answer.index)
            answer.current_leader = ProduceResponse.LeaderIdAndEpoch(
                leader_id=leader, leader_epoch=epoch
            )
            if endpoint is not None:
                endpoints[leader] = ProduceResponse.NodeEndpoint(
                    node_id=leader, host=endpoint.host, port=endpoint.port, rack=rack
                )
    response.node_endpoints = list(endpoints.values())
