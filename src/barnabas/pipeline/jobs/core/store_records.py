"""Records of Connect's topics: configurations, statuses, offsets.

The formats are those of Apache Kafka 4.3's Connect worker: JSON without schemas, fields in the
order of its schemas, no blanks. A value of None removes the record's key.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import attrs

T = TypeVar("T")

JsonObject = dict[str, Any]

_CONNECTOR: Final = "connector-"
_TASK: Final = "task-"
_COMMIT: Final = "commit-"
_TARGET: Final = "target-state-"
_FENCING: Final = "tasks-fencing-"
_RESTART: Final = "restart-connector-"
_LOGGER: Final = "logger-cluster-"
_SESSION_KEY: Final = "session-key"
_STATUS_CONNECTOR: Final = "status-connector-"
_STATUS_TASK: Final = "status-task-"
_STATUS_TOPIC: Final = "status-topic-"
_TOPIC_SEPARATOR: Final = ":connector-"
_SOURCE_TOPIC: Final = "barnabas.topic"
_TOPIC_ID: Final = "topic_id"


class UnreadableRecordError(Exception):
    """A record of one of the topics does not have the expected form."""


@attrs.frozen
class ConnectorRecord:
    """The configuration of a connector, None when it is deleted."""

    connector: str
    properties: Mapping[str, str | None] | None


@attrs.frozen
class TaskRecord:
    """The configuration of a task; it counts once the connector's tasks are committed."""

    connector: str
    task: int
    properties: Mapping[str, str | None] | None


@attrs.frozen
class CommitRecord:
    """The number of tasks: their configurations count from here on."""

    connector: str
    tasks: int | None


@attrs.frozen
class TargetRecord:
    """The state that is wanted of a connector: STARTED, PAUSED or STOPPED; None removes it."""

    connector: str
    state: str | None


@attrs.frozen
class FencingRecord:
    """The number of tasks whose producers may be running and must be fenced."""

    connector: str
    task_count: int | None


@attrs.frozen
class RestartRecord:
    """A request to restart a connector, its tasks, or those of them that failed."""

    connector: str
    include_tasks: bool
    only_failed: bool


@attrs.frozen
class LoggerRecord:
    """The level of a logger on all workers."""

    logger: str
    level: str | None


@attrs.frozen
class SessionKeyRecord:
    """The key with which Java's workers sign requests to each other. Not used here."""


ConfigRecord = (
    ConnectorRecord
    | TaskRecord
    | CommitRecord
    | TargetRecord
    | FencingRecord
    | RestartRecord
    | LoggerRecord
    | SessionKeyRecord
)


@attrs.frozen
class StatusRecord:
    """The state of a connector, or of one of its tasks; a state of None removes it."""

    connector: str
    task: int | None
    state: str | None
    trace: str | None = None
    worker_id: str = ""
    generation: int = 0
    version: str | None = None


@attrs.frozen
class ActiveTopicRecord:
    """A topic that a connector writes or reads; a task of None removes it."""

    topic: str
    connector: str
    task: int | None
    discovered_ms: int = 0


@attrs.frozen
class OffsetRecord:
    """The position of a source in one of its partitions; an offset of None resets it."""

    connector: str
    partition: JsonObject
    offset: JsonObject | None


@attrs.frozen
class SourceTopicRecord:
    """The id of a topic that a job reads, as it was when the job read it first; None removes it.

    It is a record of the offsets topic. Java's workers take it for the position of a source that
    they do not run.
    """

    connector: str
    topic: str
    topic_id: str | None


def write_json(value: Any) -> bytes:
    """Return JSON as Connect writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode_config(record: ConfigRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record of the configs topic."""
    key, value = _config_parts(record)
    return key.encode(), None if value is None else write_json(value)


def _config_parts(record: ConfigRecord) -> tuple[str, JsonObject | None]:
    match record:
        case ConnectorRecord(connector, properties):
            return _CONNECTOR + connector, _wrapped("properties", properties)
        case TaskRecord(connector, task, properties):
            return f"{_TASK}{connector}-{task}", _wrapped("properties", properties)
        case CommitRecord(connector, tasks):
            return _COMMIT + connector, _wrapped("tasks", tasks)
        case TargetRecord(connector, None):
            return _TARGET + connector, None
        case TargetRecord(connector, state):
            # Workers before 3.5 do not support STOPPED: they read `state` and pause.
            older = "PAUSED" if state == "STOPPED" else state
            return _TARGET + connector, {"state": older, "state.v2": state}
        case FencingRecord(connector, task_count):
            return _FENCING + connector, _wrapped("task-count", task_count)
        case RestartRecord(connector, include_tasks, only_failed):
            fields = {"include-tasks": include_tasks, "only-failed": only_failed}
            return _RESTART + connector, fields
        case LoggerRecord(logger, level):
            return _LOGGER + logger, _wrapped("level", level)
        case SessionKeyRecord():
            raise ValueError("session keys are not written")


def _wrapped(name: str, value: Any) -> JsonObject | None:
    return None if value is None else {name: value}


def decode_config(key: bytes, value: bytes | None) -> ConfigRecord | None:
    """Return a record of the configs topic, None for a key of another kind.

    Raises UnreadableRecordError.
    """
    name = _text(key)
    fields = _object(value)
    # The prefix of target states is longer than, and begins like, none of the others.
    if name.startswith(_TARGET):
        return TargetRecord(name.removeprefix(_TARGET), _target_state(fields))
    if name.startswith(_FENCING):
        return FencingRecord(name.removeprefix(_FENCING), _field(fields, "task-count", int))
    if name.startswith(_CONNECTOR):
        return ConnectorRecord(name.removeprefix(_CONNECTOR), _properties(fields))
    if name.startswith(_TASK):
        connector, task = _task_id(name.removeprefix(_TASK))
        return TaskRecord(connector, task, _properties(fields))
    if name.startswith(_COMMIT):
        return CommitRecord(name.removeprefix(_COMMIT), _field(fields, "tasks", int))
    if name.startswith(_RESTART):
        return _restart(name.removeprefix(_RESTART), fields)
    if name.startswith(_LOGGER):
        return LoggerRecord(name.removeprefix(_LOGGER), _field(fields, "level", str))
    return SessionKeyRecord() if name == _SESSION_KEY else None


def _target_state(fields: JsonObject | None) -> str | None:
    if fields is None:
        return None
    newer = fields.get("state.v2")
    return newer if isinstance(newer, str) else _field(fields, "state", str)


def _restart(connector: str, fields: JsonObject | None) -> RestartRecord | None:
    if fields is None:
        return None
    include_tasks = _field(fields, "include-tasks", bool) or False
    return RestartRecord(connector, include_tasks, _field(fields, "only-failed", bool) or False)


def encode_status(record: StatusRecord | ActiveTopicRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record of the status topic."""
    if isinstance(record, ActiveTopicRecord):
        key = f"{_STATUS_TOPIC}{record.topic}{_TOPIC_SEPARATOR}{record.connector}"
        topic = {
            "name": record.topic,
            "connector": record.connector,
            "task": record.task,
            "discoverTimestamp": record.discovered_ms,
        }
        return key.encode(), None if record.task is None else write_json({"topic": topic})
    if record.task is None:
        key = _STATUS_CONNECTOR + record.connector
    else:
        key = f"{_STATUS_TASK}{record.connector}-{record.task}"
    status = {
        "state": record.state,
        "trace": record.trace,
        "worker_id": record.worker_id,
        "generation": record.generation,
        "version": record.version,
    }
    return key.encode(), None if record.state is None else write_json(status)


def decode_status(key: bytes, value: bytes | None) -> StatusRecord | ActiveTopicRecord | None:
    """Return a record of the status topic, None for a key of another kind.

    Raises UnreadableRecordError.
    """
    name = _text(key)
    fields = _object(value)
    if name.startswith(_STATUS_CONNECTOR):
        return _status(name.removeprefix(_STATUS_CONNECTOR), None, fields)
    if name.startswith(_STATUS_TASK):
        return _status(*_task_id(name.removeprefix(_STATUS_TASK)), fields)
    if name.startswith(_STATUS_TOPIC):
        topic, separator, connector = name.removeprefix(_STATUS_TOPIC).partition(_TOPIC_SEPARATOR)
        if not separator:
            raise UnreadableRecordError(f"key {name} names no connector")
        found = _inner(fields, "topic")
        task = _field(found, "task", int)
        return ActiveTopicRecord(
            topic, connector, task, _field(found, "discoverTimestamp", int) or 0
        )
    return None


def _status(connector: str, task: int | None, fields: JsonObject | None) -> StatusRecord:
    if fields is None:
        return StatusRecord(connector, task, None)
    return StatusRecord(
        connector,
        task,
        _field(fields, "state", str),
        _field(fields, "trace", str),
        _field(fields, "worker_id", str) or "",
        _field(fields, "generation", int) or 0,
        _field(fields, "version", str),
    )


def encode_offset(record: OffsetRecord | SourceTopicRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record of the offsets topic."""
    if isinstance(record, SourceTopicRecord):
        partition, value = {_SOURCE_TOPIC: record.topic}, _wrapped(_TOPIC_ID, record.topic_id)
    else:
        partition, value = record.partition, record.offset
    key = write_json([record.connector, partition])
    return key, None if value is None else write_json(value)


def decode_offset(key: bytes, value: bytes | None) -> OffsetRecord | SourceTopicRecord | None:
    """Return a record of the offsets topic, None for a key that names no connector's partition.

    Raises UnreadableRecordError.
    """
    found = _json(key)
    if not isinstance(found, list):
        return None
    parts = cast(list[Any], found)
    if len(parts) != 2 or not isinstance(parts[0], str) or not isinstance(parts[1], dict):
        return None
    partition, fields = cast(JsonObject, parts[1]), _object(value)
    topic: object = partition.get(_SOURCE_TOPIC)
    if isinstance(topic, str):
        return SourceTopicRecord(parts[0], topic, _field(fields, _TOPIC_ID, str))
    return OffsetRecord(parts[0], partition, fields)


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise UnreadableRecordError("the key is not UTF-8") from None


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UnreadableRecordError("not JSON") from None


def _object(value: bytes | None) -> JsonObject | None:
    if value is None:
        return None
    found = _json(value)
    if not isinstance(found, dict):
        raise UnreadableRecordError("not a JSON object")
    return cast(JsonObject, found)


def _properties(fields: JsonObject | None) -> dict[str, str | None] | None:
    if fields is None:
        return None
    found = _inner(fields, "properties")
    if not all(value is None or isinstance(value, str) for value in found.values()):
        raise UnreadableRecordError("a property is not a text")
    return found


def _inner(fields: JsonObject | None, name: str) -> JsonObject:
    found: object = {} if fields is None else fields.get(name)
    if not isinstance(found, dict):
        raise UnreadableRecordError(f"field {name} is not an object")
    return cast(JsonObject, found)


def _field(fields: JsonObject | None, name: str, kind: type[T]) -> T | None:
    value = None if fields is None else fields.get(name)
    if value is None:
        return None
    if not isinstance(value, kind):
        raise UnreadableRecordError(f"field {name} is not of type {kind.__name__}")
    return value


def _task_id(text: str) -> tuple[str, int]:
    """Split "connector-3"; a connector's name may have hyphens too."""
    connector, hyphen, number = text.rpartition("-")
    if not hyphen or not number.isascii() or not number.isdecimal():
        raise UnreadableRecordError(f"{text} is not the name of a task")
    return connector, int(number)
