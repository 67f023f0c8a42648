"""The interfaces of plug-ins: connectors and their tasks, converters, transformations, predicates.

A plug-in is a class without arguments to its constructor, found by `plugin_registry`. It may
subclass these protocols, which gives it the methods that have a default, or only have the same
methods.

Connectors run in the runner, tasks in Spark's Python processes. A task is created and started in
the process that uses it and is kept there from one batch to the next. A task that raised is thrown
away, and the next batch starts a new one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import attrs

from barnabas.pipeline.data.records import ConnectRecord, ConnectValue, SinkRecord, SourceRecord

if TYPE_CHECKING:
    from barnabas.pipeline.data.connect_schema import Schema
    from barnabas.pipeline.definitions.config_def import ConfigDef
    from barnabas.pipeline.definitions.config_types import ParsedValue

Properties: TypeAlias = Mapping[str, str]

SourcePartition: TypeAlias = Mapping[str, Any]
"""The part of a source that a connector counts offsets in, as a JSON object."""

SourceOffset: TypeAlias = Mapping[str, Any]
"""The position in a source partition, as a JSON object."""

TopicPartition: TypeAlias = tuple[str, int]

SchemaAndValue: TypeAlias = "tuple[Schema | None, ConnectValue]"


@attrs.frozen
class CommittedPosition:
    """The committed offset of a partition, and the note that a sink task stored with it."""

    offset: int
    note: str


class OffsetReader(Protocol):
    """Reads the committed offsets of a source connector."""

    def offset(self, partition: SourcePartition) -> dict[str, Any] | None:
        """Return the committed offset of a source partition, None when there is none."""
        ...


class SourceTask(Protocol):
    """Reads one share of a source.

    In each slice the delivery calls `poll` until time or count is reached, writes the records and
    their offsets in one transaction, then calls `commit`.
    """

    def start(self, props: Properties, offsets: OffsetReader) -> None:
        """Take the task's configuration and its position. Raises ConnectError when it cannot."""
        ...

    def poll(self) -> list[SourceRecord]:
        """Return the next records; an empty list when there are none now."""
        ...

    def commit(self) -> None:
        """Note that all records returned so far are committed."""

    def stop(self) -> None:
        """Release the task's resources."""


class SinkTask(Protocol):
    """Writes records to an external system.

    Each batch is `open`, `put` (several times), `flush`, the transaction of the offsets, `close`.
    A task is exactly once when it can undo what it wrote after the last committed batch: `flush`
    returns a note about that point, the note is committed with the offsets, and `open` receives it.
    """

    needs_all_partitions: bool = False
    """True when one task must write the records of all partitions, as to one file."""

    def start(self, props: Properties) -> None:
        """Take the task's configuration. Raises ConnectError when it cannot."""
        ...

    def open(self, positions: Mapping[TopicPartition, CommittedPosition]) -> None:
        """Begin a batch after these committed positions, undoing what was written after them."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records. Raises RetriableError for a failure that a later attempt may not meet."""
        ...

    def flush(self, offsets: Mapping[TopicPartition, int]) -> str | None:
        """Make the batch durable and return the note to commit with these next offsets."""
        return None

    def close(self, *, is_committed: bool) -> None:
        """End a batch, after its transaction was committed or aborted."""

    def stop(self) -> None:
        """Release the task's resources."""


class Connector(Protocol):
    """Divides the work of a connector into tasks."""

    kind: ClassVar[str]
    """"source" or "sink"."""

    def config(self) -> "ConfigDef":
        """Return the definition of the connector's own properties."""
        ...

    def config_errors(self, values: "Mapping[str, ParsedValue]") -> Iterable[tuple[str, str]]:
        """Return what else is wrong with a configuration: the name of a property, and a message.

        `values` has the connector's own properties that are valid each on its own.
        """
        return ()

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return the properties of each task, at most `max_tasks`. Raises ConnectError."""
        ...


@runtime_checkable
class SourceConnector(Connector, Protocol):
    """A connector that reads from an external system."""

    def source_task(self) -> type[SourceTask]:
        """Return the class of the tasks."""
        ...

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        """Raise ConnectError when an offset given by a user does not fit the connector."""


@runtime_checkable
class SinkConnector(Connector, Protocol):
    """A connector that writes to an external system."""

    def sink_task(self) -> type[SinkTask]:
        """Return the class of the tasks."""
        ...


class Converter(Protocol):
    """Turns the key or the value of a record into data and back."""

    def config(self) -> "ConfigDef":
        """Return the definition of the converter's properties."""
        ...

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """Take the properties. Raises ConfigError."""
        ...

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema and the value of the data. Raises DataError."""
        ...

    def from_connect(
        self, topic: str, schema: "Schema | None", value: ConnectValue
    ) -> bytes | None:
        """Return the data of a value. Raises DataError."""
        ...


class HeaderConverter(Protocol):
    """Turns the value of a header into data and back."""

    def config(self) -> "ConfigDef":
        """Return the definition of the converter's properties."""
        ...

    def configure_headers(self, props: Mapping[str, Any]) -> None:
        """Take the properties. Raises ConfigError."""
        ...

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema and the value of the data. Raises DataError."""
        ...

    def from_connect_header(
        self, topic: str, name: str, schema: "Schema | None", value: ConnectValue
    ) -> bytes | None:
        """Return the data of a value. Raises DataError."""
        ...


class Transformation(Protocol):
    """Changes or drops a record."""

    def config(self) -> "ConfigDef":
        """Return the definition of the transformation's properties."""
        ...

    def configure(self, props: Mapping[str, Any]) -> None:
        """Take the properties. Raises ConfigError."""
        ...

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the changed record, None to drop it. Raises DataError."""
        ...


class Predicate(Protocol):
    """A condition on a record."""

    def config(self) -> "ConfigDef":
        """Return the definition of the predicate's properties."""
        ...

    def configure(self, props: Mapping[str, Any]) -> None:
        """Take the properties. Raises ConfigError."""
        ...

    def test(self, record: ConnectRecord) -> bool:
        """True when the record meets the condition."""
        ...
