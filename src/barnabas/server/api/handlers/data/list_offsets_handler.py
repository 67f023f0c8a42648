"""ListOffsets: offsets by timestamp, and the named places of a log (versions 1-11).

Without tiered storage the local log start is the log start, and tiered offsets are -1. A timestamp
within a large batch is searched for by a helper process.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from barnabas.log.record_work import Outcomes, RecordWorkNeeded
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.server.api.handler_services import DataContext
from barnabas.server.storage.record_worker import RecordWorkError

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition

PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse
TopicResponse = ListOffsetsResponse.ListOffsetsTopicResponse

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

# The first version of each named place; other negative timestamps are unsupported.
_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER: Final = 1 << 15
_LEADER_EPOCH_VERSION: Final = 4
_OFFSET_NOT_AVAILABLE_VERSION: Final = 5
_CONSUMER: Final = -1
_DEBUGGER: Final = -2

Found = tuple[int, int, int]
"""Timestamp (ms), offset and leader epoch; -1 for none."""

_NOTHING: Final[Found] = (-1, -1, -1)

Postponed = tuple[PartitionResponse, str, ListOffsetsRequest.ListOffsetsPartition, RecordWorkNeeded]
"""An incomplete answer, its topic and partition, and the work that it needs."""


def list_offsets(
    context: DataContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    """Answer each partition on its own."""
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            (repeated if key in seen else seen).add(key)
    postponed: list[Postponed] = []
    topics: list[TopicResponse] = []
    for topic in request.topics:
        answers: list[PartitionResponse] = []
        for asked in topic.partitions:
            answer = PartitionResponse(partition_index=asked.partition_index)
            answers.append(answer)
            if (topic.name, asked.partition_index) in repeated:
                answer.error_code = ErrorCode.INVALID_REQUEST
                continue
            try:
                _fill(answer, context, request, topic.name, asked, {})
            except RecordWorkNeeded as needed:
                postponed.append((answer, topic.name, asked, needed))
        topics.append(TopicResponse(name=topic.name, partitions=answers))
    response = ListOffsetsResponse(topics=topics)
    return _answer_later(context, request, response, postponed) if postponed else response


async def _answer_later(
    context: DataContext,
    request: ListOffsetsRequest,
    response: ListOffsetsResponse,
    postponed: "list[Postponed]",
) -> ListOffsetsResponse:
    """Fill in the answers once a helper process has searched the batches."""
    for answer, name, asked, needed in postponed:

        def fill(
            done: Outcomes,
            answer: PartitionResponse = answer,
            name: str = name,
            asked: ListOffsetsRequest.ListOffsetsPartition = asked,
        ) -> None:
            _fill(answer, context, request, name, asked, done)

        try:
            await context.services.records.resolve(fill, needed)
        except KafkaError as error:
            answer.error_code = error.code
        except RecordWorkError:
            answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE  # which clients retry
        except OSError:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return response


def _fill(
    answer: PartitionResponse,
    context: DataContext,
    request: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsRequest.ListOffsetsPartition,
    done: Outcomes,
) -> None:
    """Set the answer's offset or its error; raises RecordWorkNeeded."""
    version = context.version
    if asked.timestamp < 0 and version < _SINCE.get(asked.timestamp, _NEVER):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return
    try:
        replicas, number = context.services.replicas, asked.partition_index
        # A debugging client reads from any replica.
        find = replicas.replica if request.replica_id == _DEBUGGER else replicas.partition
        partition = find(topic, number, asked.current_leader_epoch)
        is_client = request.replica_id == _CONSUMER
        end = partition.fetchable_end(request.isolation_level, follower=not is_client)
        found = _find(partition, asked.timestamp, end, done, is_client=is_client)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _OFFSET_NOT_AVAILABLE_VERSION:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        answer.error_code = code
        return
    answer.timestamp, answer.offset, epoch = found
    if version >= _LEADER_EPOCH_VERSION:
        answer.leader_epoch = epoch


def _find(
    partition: "Partition", timestamp: int, end: int, done: Outcomes, *, is_client: bool
) -> Found:
    """Return the place of `timestamp`, a time or a named place, below the offset `end`.

    Raises RecordWorkNeeded for work that is not in `done`, and OFFSET_NOT_AVAILABLE after an
    election, until the high watermark has reached the new epoch
    (`Partition.fetchOffsetForTimestamp`).
    """
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = log.log_start_offset
        return -1, offset, log.epoch_at(offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    available = not is_client or partition.offsets_available
    if timestamp == LATEST:
        found: Found | None = (-1, end, partition.leader_epoch)
        if not available:
            raise _not_available(partition)
        return found
    if timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp(done)
    else:
        found = log.offset_for_timestamp(timestamp, done)
    if found is not None and found[1] < end:
        return found
    if not available:
        raise _not_available(partition)
    return _NOTHING


def _not_available(partition: "Partition") -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"the high watermark of {partition.topic}-{partition.partition} lags behind the start of "
        f"epoch {partition.leader_epoch}",
    )
