"""Changes of log levels by IncrementalAlterConfigs: the broker makes them itself.

The checks and their messages are those of Kafka's `ConfigAdminManager` and `RuntimeLoggerManager`.
Nothing changes unless every change of the resource is valid. The levels last until the node stops.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.cluster.controller.config_changes import broker_id_of
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.server.monitoring.broker_loggers import LEVELS, ROOT, levels, set_level, unset_level

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
Change = IncrementalAlterConfigsRequest.AlterableConfig

_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_LIST_OPERATIONS: Final = {_APPEND: "APPEND", _SUBTRACT: "SUBTRACT"}


def alter_log_levels(
    node_id: int, resource: Resource, *, validate_only: bool, authorize: Callable[[], None]
) -> None:
    """Set and unset the levels of this node's loggers; raises KafkaError, as `authorize` does."""
    changes = resource.configs
    _check_keys(changes)
    authorize()
    received = broker_id_of(resource.resource_name)
    if received != node_id:
        raise _invalid(f"Unexpected node id. Expected {node_id}, but received {received}")
    known = levels()
    for change in changes:
        _check(change, known)
    if validate_only:
        return
    for change in changes:
        if change.config_operation == _SET:
            set_level(change.name, change.value or "")
        else:
            unset_level(change.name)


def _check_keys(changes: Sequence[Change]) -> None:
    if any(count > 1 for count in Counter(change.name for change in changes).values()):
        raise _invalid("Error due to duplicate config keys")
    nulls = [c.name for c in changes if c.value is None and c.config_operation != _DELETE]
    if nulls:
        raise _invalid(f"Null value not supported for : {', '.join(nulls)}")


def _check(change: Change, known: dict[str, str]) -> None:
    name, operation = change.name, change.config_operation
    if operation in _LIST_OPERATIONS:
        raise _invalid(
            f"{_LIST_OPERATIONS[operation]} operation is not allowed for the BROKER_LOGGER resource"
        )
    if operation not in (_SET, _DELETE):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "")
    if name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == _DELETE and name == ROOT:
        raise _invalid("Removing the log level of the root logger is not allowed")
    if operation == _SET and change.value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {change.value} as it is not a supported log "
            f"level. Valid log levels are {', '.join(LEVELS)}",
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
