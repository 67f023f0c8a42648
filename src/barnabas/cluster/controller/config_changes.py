"""Change the configuration of topics, brokers, groups and client metrics.

As Kafka's `ConfigAdminManager` and `ConfigurationControlManager`:
`barnabas.config.config_alteration` validates the configuration that results, and only the
differences are recorded.
"""

import enum
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from barnabas.cluster.controller import mirror_changes
from barnabas.cluster.controller.election_rules import MIN_INSYNC_REPLICAS, keeps_eligible_leaders
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.metadata.feature_levels import (
    CORDONED_DIRECTORIES_SINCE,
    supports_cordoned_directories,
)
from barnabas.cluster.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    MetadataImage,
)
from barnabas.cluster.metadata.topic_names import refusal
from barnabas.config import (
    BROKER_PROPERTIES,
    TOPIC_PROPERTIES,
    ConfigError,
    Property,
    Type,
)
from barnabas.config.config_alteration import (
    validate_broker_changes,
    validate_client_metrics,
    validate_group_overrides,
    validate_topic_overrides,
)
from barnabas.config.schema import ConfigRequestError, to_text
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import ClearElrRecord, ConfigRecord

# The changes of one resource; None removes an override.
Changes = dict[str, str | None]

_PROPERTIES: Mapping[int, Mapping[str, Property]] = {
    RESOURCE_TOPIC: TOPIC_PROPERTIES,
    RESOURCE_BROKER: BROKER_PROPERTIES,
}
"""Where Kafka knows which properties are lists."""


class Operation(enum.IntEnum):
    """An operation of IncrementalAlterConfigs on a property (`AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(
    context: Context, request: IncrementalAlterConfigsRequest
) -> ControllerResult[IncrementalAlterConfigsResponse]:
    """Apply the operations of each resource; of one resource, all or none."""
    answer = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    records, answers = _alter(context, request.resources, _incremental_changes, answer)
    if request.validate_only:
        records = []
    return ControllerResult(records, IncrementalAlterConfigsResponse(responses=answers))


def alter_configs(
    context: Context, request: AlterConfigsRequest
) -> ControllerResult[AlterConfigsResponse]:
    """Replace the overrides of each resource by those given."""
    answer = AlterConfigsResponse.AlterConfigsResourceResponse
    records, answers = _alter(context, request.resources, _replacing_changes, answer)
    if request.validate_only:
        records = []
    return ControllerResult(records, AlterConfigsResponse(responses=answers))


def _alter(
    context: Context,
    resources: Iterable[Any],
    changes_of: Callable[[Context, Any, Mapping[str, str]], Changes],
    answer: Callable[..., Any],
) -> tuple[list[Message], list[Any]]:
    resources = list(resources)
    counts = Counter((item.resource_type, item.resource_name) for item in resources)
    records: list[Message] = []
    answers: list[Any] = []
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        result = answer(resource_type=key[0], resource_name=key[1], error_message=None)
        answers.append(result)
        try:
            if counts[key] > 1:
                raise _invalid("Each resource must appear at most once.")
            _check_resource(context.image, *key)
            _check_keys(resource.configs)
            current = context.image.configs.get(key, {})
            changes = changes_of(context, resource, current)
            epochs: list[Message] = []
            if key[0] == RESOURCE_TOPIC:
                epochs = mirror_changes.complete(context, key[1], current, changes)
            _check_min_isr(context.image, key, changes)
            _validate(context, key, current, changes)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        records += [
            ConfigRecord(resource_type=key[0], resource_name=key[1], name=name, value=value)
            for name, value in changes.items()
            # A broker reads its key stores again also when their path is the same (KAFKA-14136).
            if current.get(name) != value or key[0] == RESOURCE_BROKER
        ]
        records += epochs
    return [*records, *_cleared_elrs(context.image, records)], answers


def _check_min_isr(image: MetadataImage, key: tuple[int, str], changes: Changes) -> None:
    """Refuse a min.insync.replicas that not all nodes would know, while they keep ELRs.

    Raises KafkaError INVALID_CONFIG.
    """
    kind, name = key
    if kind != RESOURCE_BROKER or MIN_INSYNC_REPLICAS not in changes:
        return
    if not keeps_eligible_leaders(image):
        return
    if name:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.",
        )
    if changes[MIN_INSYNC_REPLICAS] is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.",
        )


def _cleared_elrs(image: MetadataImage, records: Iterable[Message]) -> Iterator[ClearElrRecord]:
    """Yield the records that empty the ELRs of topics whose min.insync.replicas changes.

    The members of an ELR have all records that were committed under the former value only.
    """
    if not keeps_eligible_leaders(image):
        return
    for record in records:
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS:
            is_topic = record.resource_type == RESOURCE_TOPIC
            yield ClearElrRecord(topic_name=record.resource_name if is_topic else "")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_resource(image: MetadataImage, kind: int, name: str) -> None:
    if kind == RESOURCE_TOPIC:
        if not name:
            raise _invalid("Default topic resources are not allowed.")
        reason = refusal(name)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if name not in image.topics_by_name:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
    elif kind == RESOURCE_BROKER:
        _check_broker(image, name)
    elif kind in (RESOURCE_GROUP, RESOURCE_CLIENT_METRICS):
        if not name:
            of_groups = kind == RESOURCE_GROUP
            what = "Default group resources are not allowed."
            raise _invalid(what if of_groups else "Subscription name can't be empty")
    else:
        raise _invalid(f"Unknown resource type {kind}")


def _check_broker(image: MetadataImage, name: str) -> None:
    if not name:
        return
    if broker_id_of(name) not in image.brokers:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {parse_id(name)} found."
        )


def broker_id_of(name: str) -> int:
    """Return the id in the name of a broker resource; raises KafkaError INVALID_REQUEST."""
    broker_id = parse_id(name)
    if broker_id is None:
        raise _invalid(f"Node id must be an integer, but it is: {name}")
    return broker_id


def parse_id(text: str) -> int | None:
    """Return the node id in `text`, parsed as Java does (no spaces), or None when it has none."""
    return int(text) if re.fullmatch(r"[+-]?\d{1,10}", text) else None


def _check_keys(configs: Iterable[Any]) -> None:
    counts = Counter(config.name for config in configs)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise _invalid(f"Error due to duplicate config keys : {','.join(repeated)}")
    missing = [
        config.name
        for config in configs
        if config.value is None and getattr(config, "config_operation", 0) != Operation.DELETE
    ]
    if missing:
        raise _invalid(f"Null value not supported for : {','.join(missing)}")


def _replacing_changes(context: Context, resource: Any, current: Mapping[str, str]) -> Changes:
    wanted: Changes = {config.name: config.value for config in resource.configs}
    return {**{name: None for name in current if name not in wanted}, **wanted}


def _incremental_changes(context: Context, resource: Any, current: Mapping[str, str]) -> Changes:
    return {
        config.name: _operate(context, resource, config, current) for config in resource.configs
    }


def _operate(
    context: Context, resource: Any, config: Any, current: Mapping[str, str]
) -> str | None:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        raise _invalid(f"Unknown operation type {config.config_operation}") from None
    if operation is Operation.SET:
        return config.value
    if operation is Operation.DELETE:
        return None
    row = _PROPERTIES.get(resource.resource_type, {}).get(config.name)
    if row is None or row.type is not Type.LIST:
        refusal = _list_refusal(resource.resource_type, config.name, operation)
        raise KafkaError(ErrorCode.INVALID_CONFIG, refusal)
    members = _current_members(context, resource.resource_type, row, current)
    given = [member.strip() for member in config.value.split(",") if member.strip()]
    if operation is Operation.APPEND:
        members += [member for member in given if member not in members]
    else:
        members = [member for member in members if member not in given]
    return ",".join(members)


def _list_refusal(kind: int, name: str, operation: Operation) -> str:
    """Return the message for a property that is not a list; for brokers Kafka has another one."""
    if kind != RESOURCE_BROKER:
        return f"Can't {operation.name} to key {name} because its type is not LIST."
    if name not in _PROPERTIES[kind]:
        return f"Unknown config name: {name}"
    return f"Config value {operation.name.lower()} is not allowed for config key: {name}"


def _current_members(
    context: Context, kind: int, row: Property, current: Mapping[str, str]
) -> list[str]:
    """Return the members of a list property in effect: the override, or the node's value."""
    text = current.get(row.name)
    if text is None and kind == RESOURCE_TOPIC:
        text = to_text(context.config.topic_defaults[row.name])
    elif text is None and kind == RESOURCE_BROKER:
        text = to_text(context.config.get(row.name))
    return [member for member in (text or "").split(",") if member]


def _check_cordoning(context: Context, changes: Changes) -> None:
    """Raises KafkaError INVALID_CONFIG when the metadata cannot have cordoned directories."""
    name = "cordoned.log.dirs"
    if name in changes and not supports_cordoned_directories(context.image.features):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The {name} configuration value cannot be set because it requires metadata.version >= "
            f"{CORDONED_DIRECTORIES_SINCE}",
        )


def _validate(
    context: Context, key: tuple[int, str], current: Mapping[str, str], changes: Changes
) -> None:
    """Validate the configuration that results; of a topic, only the overrides that remain."""
    kind, name = key
    result = {**current, **changes}
    overrides = {name: value for name, value in result.items() if value is not None}
    try:
        if kind == RESOURCE_TOPIC:
            validate_topic_overrides(overrides, context.config)
        elif kind == RESOURCE_GROUP:
            validate_group_overrides(overrides, context.config)
        elif kind == RESOURCE_CLIENT_METRICS:
            validate_client_metrics(overrides)
        else:
            validate_broker_changes(changes, context.config, cluster_default=not name)
            _check_cordoning(context, changes)
    except ConfigError as error:
        of_request = kind == RESOURCE_BROKER or isinstance(error, ConfigRequestError)
        code = ErrorCode.INVALID_REQUEST if of_request else ErrorCode.INVALID_CONFIG
        raise KafkaError(code, error.message) from error
