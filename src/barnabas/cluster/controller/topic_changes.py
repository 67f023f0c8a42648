"""Create and delete topics, and add partitions (Kafka's `ReplicationControlManager`).

A request names several topics. Each is checked separately, after the earlier ones of the request.
Error codes and messages are those of Kafka 4.3.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from barnabas.cluster.controller import mirror_changes
from barnabas.cluster.controller.election_rules import assigned_directory
from barnabas.cluster.controller.operation_result import (
    Context,
    ControllerResult,
    check_record_count,
)
from barnabas.cluster.controller.replica_placement import place
from barnabas.cluster.metadata.image import (
    METADATA_TOPIC,
    RESOURCE_TOPIC,
    BrokerImage,
    MetadataImage,
    TopicImage,
)
from barnabas.cluster.metadata.topic_names import colliding, refusal
from barnabas.config import ConfigError, TopicConfig, validate_topic_overrides
from barnabas.config.config_description import describe_topic
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.protocol.types import ZERO_UUID, Uuid

CreatableTopic = CreateTopicsRequest.CreatableTopic
TopicResult = CreateTopicsResponse.CreatableTopicResult
DeletedResult = DeleteTopicsResponse.DeletableTopicResult

# The limit of a request (Kafka's QuorumController.MAX_RECORDS_PER_USER_OP): of partitions, and for
# CreateTopics of all records. Kafka answers UNKNOWN_SERVER_ERROR to a CreatePartitions above the
# limit and adds some of the partitions; here the code is POLICY_VIOLATION, and none is added.
PARTITIONS_PER_REQUEST_MAX = 10_000
_DEFAULT = -1
# Default messages of Kafka's `Errors`.
NO_SUCH_TOPIC = "This server does not host this topic-partition."
NO_SUCH_ID = "This server does not host this topic ID."
_NAMELESS = "Neither topic name nor id were specified."


@attrs.frozen(slots=True)
class Placement:
    """The replicas of a new partition, and its initial ISR."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]


# Creating


def create_topics(
    context: Context, request: CreateTopicsRequest
) -> ControllerResult[CreateTopicsResponse]:
    """Create each valid topic; with `validate_only`, append no record."""
    counts = Counter(topic.name for topic in request.topics)
    topics = [topic for topic in request.topics if counts[topic.name] == 1]
    _check_total(topics, context.config.get_int("num.partitions"))
    records: list[Message] = []
    results: list[TopicResult] = []
    for topic in topics:
        try:
            mine, result = _create_topic(context, topic)
        except KafkaError as error:
            results.append(_refused(topic.name, error))
            continue
        records += mine
        results.append(result)
    check_record_count(records)
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results += [_refused(name, duplicate) for name, count in counts.items() if count > 1]
    if request.validate_only:
        records = []
    return ControllerResult(records, CreateTopicsResponse(topics=results))


def _check_total(topics: Sequence[CreatableTopic], default: int) -> None:
    """Refuse a request for too many partitions before anything is built."""
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == _DEFAULT:
            total += default
        else:
            total += max(topic.num_partitions, 0)
    if total > PARTITIONS_PER_REQUEST_MAX:
        raise _too_many_partitions()


def _too_many_partitions() -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
    )


def _refused(name: str, error: KafkaError) -> TopicResult:
    return TopicResult(name=name, error_code=error.code, error_message=error.message or None)


def _create_topic(context: Context, topic: CreatableTopic) -> tuple[list[Message], TopicResult]:
    _check_name(context.image, topic.name)
    overrides = {config.name: config.value for config in topic.configs}
    try:
        validate_topic_overrides(overrides, context.config)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error
    mirror_changes.check_new_topic(topic.name, overrides)
    if topic.assignments:
        placements = _manual_placements(context.image, topic)
    else:
        placements = _automatic_placements(context, topic)
    context.charge(len(placements))
    topic_id = context.new_id()
    # In Kafka's order: the configuration first, so that logs are opened with it.
    records: list[Message] = [
        ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in overrides.items()
    ]
    records.insert(0, TopicRecord(name=topic.name, topic_id=topic_id))
    records += _partition_records(context.image, topic_id, 0, placements)
    return records, _created(context, topic, topic_id, placements)


def _check_name(image: MetadataImage, name: str) -> None:
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    reason = refusal(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name in image.topics_by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    # As in Kafka, only existing topics count: two new topics of one request may collide.
    other = colliding(name, image.topics_by_name)
    if other is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _automatic_placements(context: Context, topic: CreatableTopic) -> list[Placement]:
    count, replication_factor = topic.num_partitions, topic.replication_factor
    if replication_factor < _DEFAULT or replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < _DEFAULT or count == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if count == _DEFAULT:
        count = context.config.get_int("num.partitions")
    if replication_factor == _DEFAULT:
        replication_factor = context.config.get_int("default.replication.factor")
    return _placed(context, count, replication_factor)


def _placed(context: Context, count: int, replication_factor: int) -> list[Placement]:
    brokers = context.image.brokers
    return [
        Placement(replicas, _active(brokers, replicas))
        for replicas in place(count, replication_factor, brokers.values(), context.random)
    ]


def _active(brokers: Mapping[int, BrokerImage], replicas: Iterable[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if brokers[replica].is_active)


def _manual_placements(image: MetadataImage, topic: CreatableTopic) -> list[Placement]:
    if topic.replication_factor != _DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to "
            "-1.",
        )
    if topic.num_partitions != _DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    assigned: dict[int, tuple[int, ...]] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        number, replicas = assignment.partition_index, tuple(assignment.broker_ids)
        if number in assigned:
            raise _bad_assignment(
                f"Found multiple manual partition assignments for partition {number}"
            )
        check_manual(image, replicas, replication_factor)
        replication_factor = len(replicas)
        if not _active(image.brokers, replicas):
            raise _bad_assignment(
                "All brokers specified in the manual partition assignment for partition "
                f"{number} are fenced or in controlled shutdown."
            )
        assigned[number] = replicas
    if sorted(assigned) != list(range(len(assigned))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [
        Placement(assigned[number], _active(image.brokers, assigned[number]))
        for number in range(len(assigned))
    ]


def check_manual(
    image: MetadataImage, replicas: Sequence[int], replication_factor: int | None
) -> None:
    """Raises KafkaError INVALID_REPLICA_ASSIGNMENT when the replicas are not a valid assignment."""
    subject = "The manual partition assignment includes"
    if not replicas:
        raise _bad_assignment(f"{subject} an empty replica list.")
    previous: int | None = None
    for replica in sorted(replicas):
        if replica not in image.brokers:
            raise _bad_assignment(f"{subject} broker {replica}, but no such broker is registered.")
        if replica == previous:
            raise _bad_assignment(f"{subject} the broker {replica} more than once.")
        previous = replica
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _bad_assignment(
            f"{subject} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {replication_factor} replica(s)."
        )


def _bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _partition_records(
    image: MetadataImage, topic_id: Uuid, first: int, placements: Iterable[Placement]
) -> Iterable[PartitionRecord]:
    for number, placement in enumerate(placements, first):
        yield PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=list(placement.replicas),
            isr=list(placement.isr),
            leader=placement.isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=[
                assigned_directory(image.brokers[broker]) for broker in placement.replicas
            ],
        )


def _created(
    context: Context, topic: CreatableTopic, topic_id: Uuid, placements: list[Placement]
) -> TopicResult:
    overrides = {config.name: config.value or "" for config in topic.configs}
    entries = describe_topic(TopicConfig(context.config, overrides), context.config)
    return TopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(placements),
        replication_factor=len(placements[0].replicas),
        configs=[
            CreateTopicsResponse.CreatableTopicConfigs(
                name=entry.name,
                value=overrides.get(entry.name, entry.value),  # as given, not as it is parsed
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in entries
        ],
    )


# Deleting


def delete_topics(
    context: Context, request: DeleteTopicsRequest, version: int
) -> ControllerResult[DeleteTopicsResponse]:
    """Delete each existing topic, by name or (since v6) by id."""
    if not context.config.get_bool("delete.topic.enable"):
        if version < 3:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    answers: list[DeletedResult] = []
    names = Counter(request.topic_names)
    ids: Counter[Uuid] = Counter()
    for topic in request.topics:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            answers.append(_not_deleted(None, ZERO_UUID, _NAMELESS))
        elif topic.name is None:
            ids[topic.topic_id] += 1
        elif topic.topic_id == ZERO_UUID:
            names[topic.name] += 1
        else:
            message = "You may not specify both topic name and topic id."
            answers.append(_not_deleted(topic.name, topic.topic_id, message))
    records: list[Message] = []
    for topic in _topics_to_delete(context.image, names, ids, answers):
        try:
            context.charge(len(topic.partitions))
        except KafkaError as error:
            message = error.message or None
            answers.append(_not_deleted(topic.name, topic.id, message, error.code))
        else:
            answers.append(DeletedResult(name=topic.name, topic_id=topic.id))
            records.append(RemoveTopicRecord(topic_id=topic.id))
    return ControllerResult(records, DeleteTopicsResponse(responses=answers))


def _not_deleted(
    name: str | None,
    topic_id: Uuid,
    message: str | None,
    code: ErrorCode = ErrorCode.INVALID_REQUEST,
) -> DeletedResult:
    return DeletedResult(name=name, topic_id=topic_id, error_code=code, error_message=message)


def _topics_to_delete(
    image: MetadataImage,
    names: "Counter[str]",
    ids: "Counter[Uuid]",
    answers: list[DeletedResult],
) -> list[TopicImage]:
    """Return the topics to delete; the answers for all others are added to `answers`.

    A topic that the request names twice is not deleted.
    """
    answers += [_not_deleted(n, ZERO_UUID, "Duplicate topic name.") for n in names if names[n] > 1]
    answers += [_not_deleted(None, i, "Duplicate topic id.") for i in ids if ids[i] > 1]
    deleted: dict[Uuid, TopicImage] = {}
    for topic_id, count in ids.items():
        topic = image.topics_by_id.get(topic_id)
        if count == 1 and topic is not None:
            deleted[topic_id] = topic
        elif count == 1:
            answers.append(_not_deleted(None, topic_id, NO_SUCH_ID, ErrorCode.UNKNOWN_TOPIC_ID))
    for name, count in names.items():
        topic = image.topics_by_name.get(name)
        if count > 1:
            continue
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers.append(_not_deleted(name, ZERO_UUID, NO_SUCH_TOPIC, code))
        elif ids[topic.id]:
            deleted.pop(topic.id, None)
            message = "The provided topic name maps to an ID that was already supplied."
            answers.append(_not_deleted(name, topic.id, message))
        else:
            deleted[topic.id] = topic
    return list(deleted.values())


# Adding partitions


def create_partitions(
    context: Context, request: CreatePartitionsRequest
) -> ControllerResult[CreatePartitionsResponse]:
    """Increase the number of partitions of each topic."""
    counts = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = []
    for name in counts:
        result = CreatePartitionsResponse.CreatePartitionsTopicResult(name=name)
        results.append(result)
        topic = next(topic for topic in request.topics if topic.name == name)
        try:
            if counts[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _add_partitions(context, topic, len(records))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message or None
    if request.validate_only:
        records = []
    return ControllerResult(records, CreatePartitionsResponse(results=results))


def _add_partitions(
    context: Context, topic: CreatePartitionsRequest.CreatePartitionsTopic, partitions_before: int
) -> list[PartitionRecord]:
    known = context.image.topics_by_name.get(topic.name)
    if known is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    current = len(known.partitions)
    if topic.count == current:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if topic.count < current:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {topic.count} would "
            "not be an increase.",
        )
    added = topic.count - current
    if topic.assignments is not None and len(topic.assignments) != added:
        raise _bad_assignment(
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(topic.assignments)} assignment(s) were specified."
        )
    if partitions_before + added > PARTITIONS_PER_REQUEST_MAX:
        raise _too_many_partitions()
    context.charge(added)
    replication_factor = len(known.partitions[0].replicas)
    if topic.assignments is None:
        placements = _placed(context, added, replication_factor)
    else:
        placements = [
            _manual_addition(context.image, tuple(assignment.broker_ids), replication_factor)
            for assignment in topic.assignments
        ]
    return list(_partition_records(context.image, known.id, current, placements))


def _manual_addition(
    image: MetadataImage, replicas: tuple[int, ...], replication_factor: int
) -> Placement:
    check_manual(image, replicas, replication_factor)
    active = _active(image.brokers, replicas)
    if not active:
        raise _bad_assignment(
            "All brokers specified in the manual partition assignment are fenced or in "
            "controlled shutdown."
        )
    return Placement(replicas, active)
