"""Failures of single records: tolerance, retries, log lines, dead letters, and redriving them.

`errors.*` are Connect's properties. A dead letter is the original record, byte for byte, with
headers that say where it came from and why it failed. Its producer is the delivery's transaction,
so a letter is written exactly once, together with the offset of its record.

Sources have dead letters too, which Connect lacks: key and value as texts, those with a structure
as JSON, with the source offset.
"""

import json
import logging
import traceback
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from barnabas.pipeline.data.connect_errors import ConnectError, DataError, java_class_of
from barnabas.pipeline.data.java_text import connect_text, plain_text
from barnabas.pipeline.data.records import (
    NO_TIMESTAMP_TYPE,
    OutputRecord,
    RawHeaders,
    RawRecord,
    SourceRecord,
)
from barnabas.pipeline.definitions.config_def import ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue
from barnabas.pipeline.definitions.config_validators import InRange, OneOf

_logger: Final = logging.getLogger("barnabas.pipeline")

HEADER_PREFIX: Final = "__connect.errors."
_RETRY_DELAY_MIN_MS: Final = 300
_DOUBLINGS_MAX: Final = 40


class Stage(StrEnum):
    """The stage at which a record failed, by Connect's names."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


class RecordFailureError(Exception):
    """One record failed; `__cause__` is the reason."""

    def __init__(self, stage: Stage, class_name: str, cause: BaseException) -> None:
        super().__init__(f"{stage} in {class_name}: {cause}")
        self.stage = stage
        self.class_name = class_name
        self.__cause__ = cause


class ToleranceExceededError(ConnectError):
    """A record failed and no failure is tolerated: the task ends."""

    def __init__(self, failure: RecordFailureError, where: str) -> None:
        super().__init__(f"Tolerance exceeded in error handler: {where}: {failure}")
        self.failure = failure
        self.__cause__ = failure.__cause__


def _key(
    name: str,
    kind: ConfigType,
    default: ParsedValue,
    importance: Importance,
    documentation: str,
    **more: Any,
) -> ConfigKey:
    return ConfigKey(name, kind, default, importance, documentation, display_name=name, **more)


ERROR_PROPERTIES: Final = ConfigDef(
    [
        _key(
            "errors.retry.timeout",
            ConfigType.LONG,
            0,
            Importance.MEDIUM,
            "The time in milliseconds to retry a failed operation; -1 retries without limit.",
        ),
        _key(
            "errors.retry.delay.max.ms",
            ConfigType.LONG,
            60_000,
            Importance.MEDIUM,
            "The longest pause in milliseconds between two attempts.",
        ),
        _key(
            "errors.tolerance",
            ConfigType.STRING,
            "none",
            Importance.MEDIUM,
            "The outcome of a failed record: none ends the task, all skips the record.",
            validator=OneOf(("none", "all")),
        ),
        _key(
            "errors.log.enable",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "True when each failure is logged.",
        ),
        _key(
            "errors.log.include.messages",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "True when log lines name the record.",
        ),
        _key(
            "errors.deadletterqueue.topic.name",
            ConfigType.STRING,
            "",
            Importance.MEDIUM,
            "The topic of dead letters; none when empty.",
        ),
        _key(
            "errors.deadletterqueue.topic.replication.factor",
            ConfigType.SHORT,
            3,
            Importance.MEDIUM,
            "The replication factor of the topic when it is created.",
            validator=InRange(-1),
        ),
        _key(
            "errors.deadletterqueue.context.headers.enable",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "True when dead letters carry headers about their failure.",
        ),
    ]
)


@attrs.frozen
class RetryPolicy:
    """The pauses between attempts of a retriable operation."""

    timeout_ms: int = 0
    delay_max_ms: int = 60_000

    def pause_ms(self, attempt: int, elapsed_ms: float) -> float | None:
        """Return the pause after the given number of attempts, None when the time is over."""
        if self.timeout_ms >= 0 and elapsed_ms >= self.timeout_ms:
            return None
        pause = min(_RETRY_DELAY_MIN_MS << min(attempt - 1, _DOUBLINGS_MAX), self.delay_max_ms)
        return pause if self.timeout_ms < 0 else min(pause, self.timeout_ms - elapsed_ms)


class ErrorPolicy:
    """Decides what happens to a failed record."""

    def __init__(self, props: Mapping[str, str], connector: str, task: int = 0) -> None:
        values = ERROR_PROPERTIES.parse(props)
        self.retries = RetryPolicy(
            _number(values["errors.retry.timeout"]), _number(values["errors.retry.delay.max.ms"])
        )
        self.tolerates_all = values["errors.tolerance"] == "all"
        self.dead_letter_topic = str(values["errors.deadletterqueue.topic.name"]).strip()
        self._has_headers = values["errors.deadletterqueue.context.headers.enable"] is True
        self._is_logged = values["errors.log.enable"] is True
        self._names_record = values["errors.log.include.messages"] is True
        self._connector = connector
        self._task = task

    def handle(self, failure: RecordFailureError, record: RawRecord) -> OutputRecord | None:
        """Return the dead letter of a consumed record, None when there is no topic for it.

        Raises ToleranceExceededError when the task must end.
        """
        self._log(failure, f"where consumed record is {_shown(record)}")
        if not self.tolerates_all:
            where = f"{record.topic}-{record.partition}@{record.offset}"
            raise ToleranceExceededError(failure, where)
        if not self.dead_letter_topic:
            return None
        place = (
            ("topic", record.topic),
            ("partition", str(record.partition)),
            ("offset", str(record.offset)),
        )
        return OutputRecord(
            self.dead_letter_topic,
            None,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers + self._headers(failure, place),
        )

    def handle_source(
        self, failure: RecordFailureError, record: SourceRecord
    ) -> OutputRecord | None:
        """Return the dead letter of a source's record, None when there is no topic for it.

        Raises ToleranceExceededError when the task must end.
        """
        self._log(failure, f"where source record is = {plain_text(record.value)}")
        if not self.tolerates_all:
            where = f"{record.topic} at {json.dumps(dict(record.source_offset), default=str)}"
            raise ToleranceExceededError(failure, where)
        if not self.dead_letter_topic:
            return None
        place = (
            ("topic", record.topic),
            ("source.partition", json.dumps(dict(record.source_partition), default=str)),
            ("source.offset", json.dumps(dict(record.source_offset), default=str)),
        )
        return OutputRecord(
            self.dead_letter_topic,
            None,
            record.timestamp_ms,
            None if record.key is None else _letter_text(record.key).encode(),
            None if record.value is None else _letter_text(record.value).encode(),
            self._headers(failure, place),
        )

    def _headers(
        self, failure: RecordFailureError, place: tuple[tuple[str, str], ...]
    ) -> RawHeaders:
        if not self._has_headers:
            return ()
        cause = failure.__cause__ or failure
        trace = "".join(traceback.format_exception(cause))
        described = (
            *place,
            ("connector.name", self._connector),
            ("task.id", str(self._task)),
            ("stage", failure.stage.value),
            ("class.name", failure.class_name),
            ("exception.class.name", java_class_of(cause)),
            ("exception.message", str(cause)),
            ("exception.stacktrace", trace),
        )
        return tuple((HEADER_PREFIX + name, text.encode()) for name, text in described)

    def _log(self, failure: RecordFailureError, record: str) -> None:
        if not self._is_logged:
            return
        _logger.error(
            "Error encountered in task %s-%d. Executing stage '%s' with class '%s'%s.",
            self._connector,
            self._task,
            failure.stage.value,
            failure.class_name,
            f", {record}" if self._names_record else "",
            exc_info=failure.__cause__,
        )


def _number(value: ParsedValue) -> int:
    return value if isinstance(value, int) else 0


def _shown(record: RawRecord) -> str:
    place = f"topic='{record.topic}', partition={record.partition}, offset={record.offset}"
    if record.timestamp_type == NO_TIMESTAMP_TYPE:
        return f"{{{place}}}"
    timestamp = f"timestamp={record.timestamp_ms}, timestampType={record.timestamp_type}"
    return f"{{{place}, {timestamp}}}"


class NotADeadLetterError(ValueError):
    """A record has no headers that name its original."""


@attrs.frozen
class DeadLetter:
    """A dead letter, decoded: where its record was, why it failed, and the record itself."""

    topic: str
    partition: int
    offset: int
    connector: str
    stage: str
    class_name: str
    exception_class: str
    message: str
    original: OutputRecord
    """The record to produce again: to its topic and partition, with its own headers."""


def _letter_text(value: Any) -> str:
    """Return a value as a header's text; one that Connect cannot write, as Java shows it."""
    try:
        return connect_text(value)
    except DataError:
        return plain_text(value)


def decode_dead_letter(record: RawRecord) -> DeadLetter:
    """Return the dead letter that a record is. Raises NotADeadLetterError.

    When a letter failed again its newest headers count: they name the topic that it was read from.
    """
    found = {
        name.removeprefix(HEADER_PREFIX): (data or b"").decode("utf-8", "replace")
        for name, data in record.headers
        if name.startswith(HEADER_PREFIX)
    }
    try:
        topic, partition, offset = found["topic"], int(found["partition"]), int(found["offset"])
    except (KeyError, ValueError):
        raise NotADeadLetterError(
            f"{record.topic}-{record.partition}@{record.offset} has no headers of a dead letter: "
            "set errors.deadletterqueue.context.headers.enable=true"
        ) from None
    own = tuple(header for header in record.headers if not header[0].startswith(HEADER_PREFIX))
    return DeadLetter(
        topic,
        partition,
        offset,
        found.get("connector.name", ""),
        found.get("stage", ""),
        found.get("class.name", ""),
        found.get("exception.class.name", ""),
        found.get("exception.message", ""),
        OutputRecord(topic, partition, record.timestamp_ms, record.key, record.value, own),
    )
