"""The error response of each api, for what its handler did not answer itself.

As Kafka's `AbstractRequest.getErrorResponse`: the code goes to the top level where that version of
the response has one, otherwise to every item that the request named.
"""

from typing import Any

import attrs

from barnabas.protocol.apis import ApiKey
from barnabas.protocol.errors import ErrorCode


@attrs.frozen
class _Level:
    """Items of a request and where the response answers each."""

    asked: str  # field of the request (or of the item above)
    answers: str  # field of the response (or of the answer above)
    struct: str  # class of an answer, nested in the response
    # Fields that name an item and its answer alike; a plain value stands for the first.
    names: tuple[str, ...]


_TOPIC = ("name", "topic_id")

# The code is set at the innermost level.
_ITEMS: dict[str, tuple[_Level, ...]] = {
    "Produce": (
        _Level("topic_data", "responses", "TopicProduceResponse", _TOPIC),
        _Level("partition_data", "partition_responses", "PartitionProduceResponse", ("index",)),
    ),
    "Fetch": (
        _Level("topics", "responses", "FetchableTopicResponse", ("topic", "topic_id")),
        _Level("partitions", "partitions", "PartitionData", ("partition_index",)),
    ),
    "ListOffsets": (
        _Level("topics", "topics", "ListOffsetsTopicResponse", ("name",)),
        _Level("partitions", "partitions", "ListOffsetsPartitionResponse", ("partition_index",)),
    ),
    "Metadata": (_Level("topics", "topics", "MetadataResponseTopic", _TOPIC),),
    "OffsetCommit": (
        _Level("topics", "topics", "OffsetCommitResponseTopic", _TOPIC),
        _Level("partitions", "partitions", "OffsetCommitResponsePartition", ("partition_index",)),
    ),
    "OffsetFetch": (_Level("groups", "groups", "OffsetFetchResponseGroup", ("group_id",)),),
    "FindCoordinator": (_Level("coordinator_keys", "coordinators", "Coordinator", ("key",)),),
    "DescribeGroups": (_Level("groups", "groups", "DescribedGroup", ("group_id",)),),
    "ConsumerGroupDescribe": (_Level("group_ids", "groups", "DescribedGroup", ("group_id",)),),
    "DeleteGroups": (_Level("groups_names", "results", "DeletableGroupResult", ("group_id",)),),
    "CreateTopics": (_Level("topics", "topics", "CreatableTopicResult", ("name",)),),
    "DeleteTopics": (_Level("topics", "responses", "DeletableTopicResult", _TOPIC),),
    "CreatePartitions": (_Level("topics", "results", "CreatePartitionsTopicResult", ("name",)),),
    "DeleteRecords": (
        _Level("topics", "topics", "DeleteRecordsTopicResult", ("name",)),
        _Level("partitions", "partitions", "DeleteRecordsPartitionResult", ("partition_index",)),
    ),
    "CreateAcls": (_Level("creations", "results", "AclCreationResult", ()),),
    "DeleteAcls": (_Level("filters", "filter_results", "DeleteAclsFilterResult", ()),),
    "DescribeConfigs": (
        _Level("resources", "results", "DescribeConfigsResult", ("resource_type", "resource_name")),
    ),
    "AlterConfigs": (
        _Level(
            "resources",
            "responses",
            "AlterConfigsResourceResponse",
            ("resource_type", "resource_name"),
        ),
    ),
    "IncrementalAlterConfigs": (
        _Level(
            "resources",
            "responses",
            "AlterConfigsResourceResponse",
            ("resource_type", "resource_name"),
        ),
    ),
    "AlterPartitionReassignments": (
        _Level("topics", "responses", "ReassignableTopicResponse", ("name",)),
        _Level("partitions", "partitions", "ReassignablePartitionResponse", ("partition_index",)),
    ),
    "ElectLeaders": (
        _Level("topic_partitions", "replica_election_results", "ReplicaElectionResult", ("topic",)),
        _Level("partitions", "partition_result", "PartitionResult", ("partition_id",)),
    ),
    "OffsetForLeaderEpoch": (
        _Level("topics", "topics", "OffsetForLeaderTopicResult", ("topic",)),
        _Level("partitions", "partitions", "EpochEndOffset", ("partition",)),
    ),
    "DescribeTopicPartitions": (
        _Level("topics", "topics", "DescribeTopicPartitionsResponseTopic", ("name",)),
    ),
    # Of versions 0-3; later ones have a code for the whole.
    "AddPartitionsToTxn": (
        _Level(
            "v3_and_below_topics",
            "results_by_topic_v3_and_below",
            "AddPartitionsToTxnTopicResult",
            ("name",),
        ),
        _Level(
            "partitions",
            "results_by_partition",
            "AddPartitionsToTxnPartitionResult",
            ("partition_index",),
        ),
    ),
    "TxnOffsetCommit": (
        _Level("topics", "topics", "TxnOffsetCommitResponseTopic", ("name",)),
        _Level(
            "partitions", "partitions", "TxnOffsetCommitResponsePartition", ("partition_index",)
        ),
    ),
    "WriteTxnMarkers": (
        _Level("markers", "markers", "WritableTxnMarkerResult", ("producer_id",)),
        _Level("topics", "topics", "WritableTxnMarkerTopicResult", ("name",)),
        _Level(
            "partition_indexes",
            "partitions",
            "WritableTxnMarkerPartitionResult",
            ("partition_index",),
        ),
    ),
    "DescribeProducers": (
        _Level("topics", "topics", "TopicResponse", ("name",)),
        _Level("partition_indexes", "partitions", "PartitionResponse", ("partition_index",)),
    ),
    "DescribeTransactions": (
        _Level(
            "transactional_ids", "transaction_states", "TransactionState", ("transactional_id",)
        ),
    ),
}

# Before version 2 OffsetFetch has codes for partitions only.
_OFFSET_FETCH_V1 = (
    _Level("topics", "topics", "OffsetFetchResponseTopic", ("name",)),
    _Level("partition_indexes", "partitions", "OffsetFetchResponsePartition", ("partition_index",)),
)

# How the field is called; AddPartitionsToTxn has its own name for it.
_CODES = ("error_code", "partition_error_code")

# These have one at the top beside those of the items (Metadata since v13, ElectLeaders since v1).
_NEVER_ONLY_TOP_LEVEL = frozenset({"AlterPartitionReassignments", "ElectLeaders", "Metadata"})
_DELETE_TOPICS_BY_NAME_UNTIL = 5


def error_response(
    api: ApiKey, request: Any, version: int, code: ErrorCode, message: str | None
) -> Any | None:
    """The response of `api` that says `code` for all of `request`; None where it has no place."""
    if api.name == "Produce" and code == ErrorCode.UNKNOWN_SERVER_ERROR:
        # Java's idempotent producer gives up on -1 and loses its place (KAFKA-14034).
        code = ErrorCode.KAFKA_STORAGE_ERROR
    response: Any = api.response_type()
    levels = _ITEMS.get(api.name, ())
    if api.name == "OffsetFetch" and version == 1:
        levels = _OFFSET_FETCH_V1
    at_top = api.name not in _NEVER_ONLY_TOP_LEVEL and _has(response, "error_code", version)
    if at_top or request is None:
        return response if _set_code(response, version, code, message) else None
    if api.name == "DeleteTopics" and version <= _DELETE_TOPICS_BY_NAME_UNTIL:
        answer_type: Any = response.STRUCTS["DeletableTopicResult"]
        answers: list[Any] = [answer_type(name=name) for name in request.topic_names]
        response.responses = answers
    elif api.name == "AlterReplicaLogDirs":
        answers = _moves(response, request)
    elif levels:
        answers = _answers(response, request, levels)
    else:
        return None
    for answer in answers:
        _set_code(answer, version, code, message)
        if api.name == "Metadata" and answer.name is None:
            answer.name = ""
    if _has(response, "error_code", version):
        _set_code(response, version, code, message)
    return response


def _moves(response: Any, request: Any) -> list[Any]:
    """The answers to AlterReplicaLogDirs, which asks by directory and is answered by topic."""
    topic_type: Any = response.STRUCTS["AlterReplicaLogDirTopicResult"]
    partition_type: Any = response.STRUCTS["AlterReplicaLogDirPartitionResult"]
    answers: list[Any] = []
    for directory in request.dirs:
        for topic in directory.topics:
            partitions = [partition_type(partition_index=number) for number in topic.partitions]
            response.results.append(topic_type(topic_name=topic.name, partitions=partitions))
            answers += partitions
    return answers


def _has(answer: Any, name: str, version: int) -> bool:
    field = answer.FIELDS.get(name)
    return field is not None and field.versions.has(version)


def _set_code(answer: Any, version: int, code: ErrorCode, message: str | None) -> bool:
    name = next((name for name in _CODES if _has(answer, name, version)), None)
    if name is None:
        return False
    setattr(answer, name, code)
    if message is not None and _has(answer, "error_message", version):
        answer.error_message = message
    return True


def _answers(response: Any, request: Any, levels: tuple[_Level, ...]) -> list[Any]:
    """Give `response` an answer to each item of `request`; returns the innermost ones."""
    pairs = [(request, response)]
    for level in levels:
        struct: Any = response.STRUCTS[level.struct]
        below: list[tuple[Any, Any]] = []
        for asked, answered in pairs:
            items: list[Any] = getattr(asked, level.asked) or []
            answers: list[Any] = [struct(**_names(item, level)) for item in items]
            setattr(answered, level.answers, answers)
            below += zip(items, answers, strict=True)
        pairs = below
    return [answer for _, answer in pairs]


def _names(item: Any, level: _Level) -> dict[str, Any]:
    if isinstance(item, str | int):
        return {level.names[0]: item}
    names = {name: getattr(item, name) for name in level.names if hasattr(item, name)}
    if level.names == ("partition_index",) and not names:  # Fetch says "partition" when it asks
        names["partition_index"] = item.partition
    return names
