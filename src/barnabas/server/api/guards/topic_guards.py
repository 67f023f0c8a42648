"""Guards of CreateTopics, DeleteTopics and CreatePartitions, at the controller.

A name or id that a request repeats is left to the handler, which refuses it.
"""

from collections import Counter

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.cluster.metadata.image import METADATA_TOPIC, MetadataImage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.types import ZERO_UUID
from barnabas.server.api.context import AnyContext
from barnabas.server.api.guards.guarded_answers import Answer, completed
from barnabas.server.api.permissions import MESSAGES, may_on_cluster, permitted
from barnabas.server.api.registry import Handler

TOPIC = ResourceType.TOPIC
DeleteResult = DeleteTopicsResponse.DeletableTopicResult
DeleteState = DeleteTopicsRequest.DeleteTopicState

_STATES_VERSION = 6
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _unique(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count == 1]


def create_topics(ctx: AnyContext, request: CreateTopicsRequest, handler: Handler) -> Answer:
    """CREATE on the cluster or on each topic; its values are shown with DESCRIBE_CONFIGS."""
    may_create_all = may_on_cluster(ctx, AclOperation.CREATE, log_denied=False)
    names = [name for name in _unique([topic.name for topic in request.topics])
             if name != METADATA_TOPIC]  # fmt: skip
    allowed = set(names)
    if not may_create_all:
        allowed = permitted(ctx, AclOperation.CREATE, TOPIC, names)
    shown = permitted(ctx, AclOperation.DESCRIBE_CONFIGS, TOPIC, names, log_denied=False)
    denied = set(names) - allowed
    request.topics = [topic for topic in request.topics if topic.name not in denied]

    def complete(response: CreateTopicsResponse) -> None:
        for topic in response.topics:
            if not topic.error_code and topic.name not in shown:
                _hide_values(topic)
        response.topics += [
            CreateTopicsResponse.CreatableTopicResult(
                name=name, error_code=_DENIED, error_message="Authorization failed."
            )
            for name in names
            if name in denied
        ]

    return completed(handler(ctx, request), complete)


def _hide_values(topic: CreateTopicsResponse.CreatableTopicResult) -> None:
    topic.topic_config_error_code = _DENIED
    topic.num_partitions = topic.replication_factor = -1
    topic.configs = []


def create_partitions(
    ctx: AnyContext, request: CreatePartitionsRequest, handler: Handler
) -> Answer:
    """ALTER on each topic."""
    names = _unique([topic.name for topic in request.topics])
    denied = set(names) - permitted(ctx, AclOperation.ALTER, TOPIC, names)
    request.topics = [topic for topic in request.topics if topic.name not in denied]

    def complete(response: CreatePartitionsResponse) -> None:
        response.results += [
            CreatePartitionsResponse.CreatePartitionsTopicResult(
                name=name, error_code=_DENIED, error_message=None
            )
            for name in names
            if name in denied
        ]

    return completed(handler(ctx, request), complete)


def delete_topics(ctx: AnyContext, request: DeleteTopicsRequest, handler: Handler) -> Answer:
    """DELETE on the cluster or on each topic.

    Without DESCRIBE on the topic, an id is not answered with its name, and a missing name as an
    existing one.
    """
    if may_on_cluster(ctx, AclOperation.DELETE, log_denied=False):
        return handler(ctx, request)
    asked = request.topics
    if ctx.version < _STATES_VERSION:
        asked = [DeleteState(name=name) for name in request.topic_names]
    denied: list[DeleteResult] = []
    kept = _deletable(ctx, ctx.services.image, asked, denied)
    if ctx.version < _STATES_VERSION:
        request.topic_names = [each.name or "" for each in kept]
    else:
        request.topics = kept
    return completed(handler(ctx, request), lambda response: response.responses.extend(denied))


def _deletable(
    ctx: AnyContext, image: MetadataImage, asked: list[DeleteState], denied: list[DeleteResult]
) -> list[DeleteState]:
    """Return what the handler answers; add the answers to the others to `denied`."""
    names = _unique([each.name for each in asked if each.name is not None and _is_named(each)])
    ids = Counter(each.topic_id for each in asked if each.name is None)
    by_id = {
        each: image.topics_by_id[each].name
        for each, count in ids.items()
        if count == 1 and each in image.topics_by_id
    }
    checked = {**dict.fromkeys(names), **dict.fromkeys(by_id.values())}
    describable = permitted(ctx, AclOperation.DESCRIBE, TOPIC, checked)
    deletable = permitted(ctx, AclOperation.DELETE, TOPIC, checked)
    kept: list[DeleteState] = []
    for each in asked:
        if each.name is None and each.topic_id in by_id:
            name, topic_id = by_id[each.topic_id], each.topic_id
            is_denied, shown = name not in deletable, name if name in describable else None
        elif each.name in checked and _is_named(each) and each.name in names:
            name, topic_id, shown = each.name, ZERO_UUID, each.name
            is_denied = name not in describable or (
                name in image.topics_by_name and name not in deletable
            )
        else:
            kept.append(each)
            continue
        if is_denied:
            denied.append(
                DeleteResult(
                    name=shown,
                    topic_id=topic_id,
                    error_code=_DENIED,
                    error_message=MESSAGES[_DENIED],
                )
            )
        else:
            kept.append(each)
    return kept


def _is_named(each: DeleteState) -> bool:
    return each.topic_id == ZERO_UUID
