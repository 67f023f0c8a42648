"""Records on their way through a job: as bytes, as data, and as bytes again.

`RawRecord` is a record as Spark's Kafka source delivers it. A sink job turns it into a
`SinkRecord`, a connector's task produces `SourceRecord`, and either leaves the chain of
transformations as data, to be written by a sink task or as an `OutputRecord`.

Records are values: nothing changes a record after its creation. They are not frozen, since a frozen
class costs three times as much to create and a chain creates several for each record.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import attrs

if TYPE_CHECKING:
    from barnabas.pipeline.data.connect_schema import Schema

ConnectValue: TypeAlias = Any
"""A value of Connect's data model; the package's docstring lists the types."""

RawHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]

NO_TIMESTAMP_TYPE = "NoTimestampType"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@attrs.define(eq=True, slots=True)
class RawRecord:
    """A record of a topic as bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: RawHeaders = ()


@attrs.define(eq=True, slots=True)
class OutputRecord:
    """A record to write; the producer chooses a partition or a timestamp that is None."""

    topic: str
    partition: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: RawHeaders = ()


@attrs.define(eq=True, slots=True)
class Header:
    """A header as data."""

    name: str
    schema: "Schema | None"
    value: ConnectValue


@attrs.define(eq=True, slots=True)
class ConnectRecord:
    """A record as data. `partition` of a source record is None when the producer chooses it."""

    topic: str
    partition: int | None
    timestamp_ms: int | None
    key_schema: "Schema | None"
    key: ConnectValue
    value_schema: "Schema | None"
    value: ConnectValue
    headers: tuple[Header, ...]

    def with_key(self, schema: "Schema | None", key: ConnectValue) -> Self:
        """Return the record with another key."""
        return self._with(schema, key, self.value_schema, self.value)

    def with_value(self, schema: "Schema | None", value: ConnectValue) -> Self:
        """Return the record with another value."""
        return self._with(self.key_schema, self.key, schema, value)

    def _with(
        self,
        key_schema: "Schema | None",
        key: ConnectValue,
        value_schema: "Schema | None",
        value: ConnectValue,
    ) -> Self:
        """Return a copy; quicker than `attrs.evolve`, for each transformation of each record."""
        raise NotImplementedError

    def with_topic(self, topic: str) -> Self:
        """Return the record with another topic."""
        return attrs.evolve(self, topic=topic)

    def with_headers(self, headers: tuple[Header, ...]) -> Self:
        """Return the record with other headers."""
        return attrs.evolve(self, headers=headers)


@attrs.define(eq=True, slots=True)
class SinkRecord(ConnectRecord):
    """A record that a job read from a topic.

    `original` is the topic, partition and offset that it was read from: transformations change
    `topic`, and offsets are committed for the original.
    """

    offset: int
    timestamp_type: str
    original: tuple[str, int, int]

    def _with(
        self,
        key_schema: "Schema | None",
        key: ConnectValue,
        value_schema: "Schema | None",
        value: ConnectValue,
    ) -> "SinkRecord":
        return SinkRecord(
            self.topic,
            self.partition,
            self.timestamp_ms,
            key_schema,
            key,
            value_schema,
            value,
            self.headers,
            self.offset,
            self.timestamp_type,
            self.original,
        )


@attrs.define(eq=True, slots=True)
class SourceRecord(ConnectRecord):
    """A record that a connector's task produced.

    `source_partition` and `source_offset` are the connector's own: after a restart the task
    continues after the newest offset that was committed for each partition. Both hold only what
    JSON can hold.
    """

    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any]

    def _with(
        self,
        key_schema: "Schema | None",
        key: ConnectValue,
        value_schema: "Schema | None",
        value: ConnectValue,
    ) -> "SourceRecord":
        return SourceRecord(
            self.topic,
            self.partition,
            self.timestamp_ms,
            key_schema,
            key,
            value_schema,
            value,
            self.headers,
            self.source_partition,
            self.source_offset,
        )


def source_record(
    topic: str,
    value: ConnectValue,
    value_schema: "Schema | None" = None,
    *,
    source_partition: Mapping[str, Any],
    source_offset: Mapping[str, Any],
    key: ConnectValue = None,
    key_schema: "Schema | None" = None,
    partition: int | None = None,
    timestamp_ms: int | None = None,
    headers: tuple[Header, ...] = (),
) -> SourceRecord:
    """Return a source record; most connectors set only some of its fields."""
    return SourceRecord(
        topic,
        partition,
        timestamp_ms,
        key_schema,
        key,
        value_schema,
        value,
        headers,
        source_partition,
        source_offset,
    )
