"""The error response of each api, for what its handler did not answer itself.

As Kafka's `AbstractRequest.getErrorResponse`: the code goes to the top level where the response
has one, otherwise to every item that the request named.
"""

from typing import Any

from barnabas.protocol.apis import ApiKey
from barnabas.protocol.errors import ErrorCode

# Where the items are, level by level: a field of the request, the field of the response that
# answers it. Fields of the same name (index, name, ...) are copied from each item to its answer.
# The code is set at the innermost level.
_Levels = tuple[tuple[str, str], ...]

_ITEMS: dict[str, _Levels] = {
    "Produce": (("topic_data", "responses"), ("partition_data", "partition_responses")),
    "Fetch": (("topics", "responses"), ("partitions", "partitions")),
    "ListOffsets": (("topics", "topics"), ("partitions", "partitions")),
    "Metadata": (("topics", "topics"),),
    "OffsetCommit": (("topics", "topics"), ("partitions", "partitions")),
    "OffsetFetch": (("groups", "groups"),),
    "FindCoordinator": (("coordinator_keys", "coordinators"),),
    "DescribeGroups": (("groups", "groups"),),
    "DeleteGroups": (("groups_names", "results"),),
    "CreateTopics": (("topics", "topics"),),
    "DeleteTopics": (("topics", "responses"),),
    "CreatePartitions": (("topics", "results"),),
    "DeleteRecords": (("topics", "topics"), ("partitions", "partitions")),
    "DescribeConfigs": (("resources", "results"),),
    "AlterConfigs": (("resources", "responses"),),
    "IncrementalAlterConfigs": (("resources", "responses"),),
    "OffsetForLeaderEpoch": (("topics", "topics"), ("partitions", "partitions")),
    "DescribeTopicPartitions": (("topics", "topics"),),
    "DescribeProducers": (("topics", "topics"), ("partitions", "partitions")),
    "ConsumerGroupDescribe": (("group_ids", "groups"),),
    "ShareGroupDescribe": (("group_ids", "groups"),),
    "StreamsGroupDescribe": (("group_ids", "groups"),),
}

# The field of an answer that takes an item which is a plain string.
_STRING_ITEMS = {
    "FindCoordinator": "key",
    "DescribeGroups": "group_id",
    "DeleteGroups": "group_id",
    "ConsumerGroupDescribe": "group_id",
    "ShareGroupDescribe": "group_id",
    "StreamsGroupDescribe": "group_id",
}
# Names that differ between an item and its answer.
_RENAMED = {"partition": "partition_index", "partition_index": "partition"}
_PARTITIONS = frozenset({"partition", "partition_index", "index"})


def error_response(
    api: ApiKey, request: Any, version: int, code: ErrorCode, message: str | None
) -> Any | None:
    """The response of `api` that says `code` for all of `request`; None where it has no place."""
    response = api.response_type()
    if request is None:
        return response if _set_code(response, code, message) else None
    if api.name == "DeleteTopics" and version < 6:
        topic = type(response).DeletableTopicResult
        response.responses = [topic(name=name) for name in request.topic_names]
        for answer in response.responses:
            _set_code(answer, code, message if version >= 5 else None)
        return response
    levels = _ITEMS.get(api.name)
    at_top = hasattr(response, "error_code") and _in_version(response, "error_code", version)
    if at_top or levels is None:
        return response if _set_code(response, code, message) else None
    _answer_items(api.name, response, request, levels, code, message)
    return response
