"""ListOffsets: offsets by time, and the named places of a log (versions 1-11).

Without tiered storage the local log starts where the log starts, and the tiered offsets are -1.
"""

from typing import TYPE_CHECKING, Final

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.server.context import RequestContext
from barnabas.server.dispatch import handles

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

# The version from which each named place may be asked; other negative numbers name none.
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

Found = tuple[int, int, int]
"""Timestamp (ms), offset and leader epoch; -1 for none."""

_NOTHING: Final[Found] = (-1, -1, -1)


@handles(ListOffsetsRequest)
def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer each partition on its own."""
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            (repeated if key in seen else seen).add(key)
    topics: list[TopicResponse] = []
    for topic in request.topics:
        answers: list[PartitionResponse] = []
        for asked in topic.partitions:
            if (topic.name, asked.partition_index) in repeated:
                answers.append(_error(asked.partition_index, ErrorCode.INVALID_REQUEST))
            else:
                answers.append(_answer(context, request, topic.name, asked))
        topics.append(TopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _answer(
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsRequest.ListOffsetsPartition,
) -> PartitionResponse:
    version = context.version
    if asked.timestamp < 0 and version < _SINCE.get(asked.timestamp, _NEVER):
        return _error(asked.partition_index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = context.node.replicas.partition(topic, asked.partition_index)
        partition.check_leader(asked.current_leader_epoch)
        is_client = request.replica_id == _CONSUMER
        end = partition.fetchable_end(request.isolation_level, follower=not is_client)
        timestamp, offset, epoch = _find(partition, asked.timestamp, end, is_client=is_client)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _OFFSET_NOT_AVAILABLE_VERSION:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return _error(asked.partition_index, code)
    answer = PartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset
    )
    if version >= _LEADER_EPOCH_VERSION:
        answer.leader_epoch = epoch
    return answer


def _find(partition: "Partition", timestamp: int, end: int, *, is_client: bool) -> Found:
    """Where `timestamp`, a time or a named place, lies; `end` is the first offset out of sight.

    OFFSET_NOT_AVAILABLE after an election, until the high watermark has reached the new epoch
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
        found = log.offset_of_max_timestamp()
    else:
        found = log.offset_for_timestamp(timestamp)
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


def _error(partition: int, code: ErrorCode) -> PartitionResponse:
    return PartitionResponse(partition_index=partition, error_code=code)
