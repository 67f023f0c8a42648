"""The registry without I/O: replay of records, queries and decisions."""

import attrs

from barnabas.registry.core.parsed_schemas import ParsedSchemas
from barnabas.registry.core.registration import Registration
from barnabas.registry.core.registry_state import RegistryState, value_of
from barnabas.registry.core.schema_queries import SchemaQueries
from barnabas.registry.core.topic_records import (
    RecordError,
    SchemaKey,
    TopicRecord,
    decode_record,
)


@attrs.frozen
class SkippedRecord:
    """A record that could not be read."""

    offset: int
    reason: str


class RegistryCore:
    """State, queries and decisions of one registry."""

    def __init__(self) -> None:
        self.state = RegistryState()
        parsed_schemas = ParsedSchemas(self.state)
        self.queries = SchemaQueries(self.state, parsed_schemas)
        self.registration = Registration(self.state, parsed_schemas)
        self.skipped_records = 0

    def replay(
        self, key: bytes | None, value: bytes | None, *, offset: int, timestamp_ms: int
    ) -> SkippedRecord | None:
        """Take in a record of ``_schemas``; return what was wrong with it when it is skipped."""
        try:
            record = decode_record(key, value)
        except RecordError as error:
            self.skipped_records += 1
            return SkippedRecord(offset, str(error))
        self.state.apply(record, timestamp_ms)
        return None

    def take_conflicts(self) -> list[TopicRecord]:
        """Return the records that write versions again which undone records would replace."""
        state = self.state
        found = [state.version(*key, deleted=True) for key in sorted(state.conflicts)]
        state.conflicts.clear()
        return [
            TopicRecord(SchemaKey(version.subject, version.version), value_of(version))
            for version in found
            if version is not None
        ]
