"""Filter, RegexRouter, TimestampRouter: drop records, and choose their topics."""

from collections.abc import Mapping

from barnabas.pipeline.data.connect_errors import DataError, DatePatternFailureError
from barnabas.pipeline.data.date_format import DateFormat, DatePatternError
from barnabas.pipeline.data.java_regex import compile_java_regex, replace_first
from barnabas.pipeline.data.records import ConnectRecord
from barnabas.pipeline.data.transforms.transform_base import (
    ConfiguredTransform,
    java_regex,
    property_of,
)
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue

_TOPICS_MAX = 1000


class Filter(ConfiguredTransform):
    """Drops each record; a predicate selects which ones reach it."""

    java_class = "org.apache.kafka.connect.transforms.Filter"

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Drop the record."""
        return None


class RegexRouter(ConfiguredTransform):
    """Changes topics that a regular expression matches whole."""

    java_class = "org.apache.kafka.connect.transforms.RegexRouter"
    definition = ConfigDef(
        [
            property_of(
                "regex",
                ConfigType.STRING,
                Importance.HIGH,
                "The regular expression, as Java writes it.",
                validator=java_regex,
            ),
            property_of(
                "replacement",
                ConfigType.STRING,
                Importance.HIGH,
                "The new topic; $1 stands for the first group.",
            ),
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        self._regex = compile_java_regex(str(values["regex"]))
        self._replacement = str(values["replacement"])
        self._known: dict[str, str] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record with its new topic. Raises ConnectError for a wrong replacement."""
        topic = self._known.get(record.topic)
        if topic is None:
            topic = record.topic
            if self._regex.fullmatch(topic):
                topic = replace_first(self._regex, topic, self._replacement)
            if len(self._known) >= _TOPICS_MAX:
                self._known.clear()
            self._known[record.topic] = topic
        return record if topic == record.topic else record.with_topic(topic)


class TimestampRouter(ConfiguredTransform):
    """Puts the timestamp into the topic."""

    java_class = "org.apache.kafka.connect.transforms.TimestampRouter"
    definition = ConfigDef(
        [
            property_of(
                "topic.format",
                ConfigType.STRING,
                Importance.HIGH,
                "The new topic; ${topic} and ${timestamp} stand for the record's.",
                default="${topic}-${timestamp}",
            ),
            property_of(
                "timestamp.format",
                ConfigType.STRING,
                Importance.HIGH,
                "The form of the timestamp, as a pattern of java.text.SimpleDateFormat.",
                default="yyyyMMdd",
            ),
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties; a wrong pattern is reported with the first record."""
        self._topic_format = str(values["topic.format"])
        self._pattern = str(values["timestamp.format"])
        self._format: DateFormat | None = None

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record with its new topic. Raises ConnectError."""
        if record.timestamp_ms is None:
            raise DataError(f"Timestamp missing on record: {record}")
        if self._format is None:
            try:
                self._format = DateFormat(self._pattern)
            except DatePatternError as error:
                raise DatePatternFailureError(str(error)) from error
        shown = self._format.format(record.timestamp_ms)
        topic = self._topic_format.replace("${topic}", record.topic)
        return record.with_topic(topic.replace("${timestamp}", shown))
