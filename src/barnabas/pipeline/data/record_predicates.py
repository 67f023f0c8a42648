"""Connect's three predicates: conditions under which a transformation applies."""

from collections.abc import Mapping

from barnabas.pipeline.data.java_regex import compile_java_regex
from barnabas.pipeline.data.records import ConnectRecord
from barnabas.pipeline.data.transforms.transform_base import (
    ConfiguredTransform,
    java_regex,
    property_of,
)
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue
from barnabas.pipeline.definitions.config_validators import AllOf, non_empty

_TOPICS_MAX = 1000


class HasHeaderKey(ConfiguredTransform):
    """True for records with a header of a name."""

    java_class = "org.apache.kafka.connect.transforms.predicates.HasHeaderKey"
    definition = ConfigDef(
        [
            property_of(
                "name",
                ConfigType.STRING,
                Importance.MEDIUM,
                "The name of the header.",
                validator=non_empty,
            )
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        self._name = str(values["name"])

    def test(self, record: ConnectRecord) -> bool:
        """True when the record has the header."""
        return any(header.name == self._name for header in record.headers)


class RecordIsTombstone(ConfiguredTransform):
    """True for records without a value."""

    java_class = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"

    def test(self, record: ConnectRecord) -> bool:
        """True when the value is null."""
        return record.value is None


class TopicNameMatches(ConfiguredTransform):
    """True for records of topics that a regular expression matches whole."""

    java_class = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
    definition = ConfigDef(
        [
            property_of(
                "pattern",
                ConfigType.STRING,
                Importance.MEDIUM,
                "The regular expression, as Java writes it.",
                validator=AllOf((non_empty, java_regex)),
            )
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        self._regex = compile_java_regex(str(values["pattern"]))
        self._known: dict[str, bool] = {}

    def test(self, record: ConnectRecord) -> bool:
        """True when the topic matches."""
        found = self._known.get(record.topic)
        if found is None:
            if len(self._known) >= _TOPICS_MAX:
                self._known.clear()
            found = self._known[record.topic] = self._regex.fullmatch(record.topic) is not None
        return found
