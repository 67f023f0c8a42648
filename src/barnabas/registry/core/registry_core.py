"""The registry without I/O: replay of records, queries and decisions."""

from collections.abc import Sequence

import attrs

from barnabas.registry.core.key_bytes import KeyBytes
from barnabas.registry.core.parsed_schemas import ParsedSchemas
from barnabas.registry.core.record_upkeep import ids_to_keep, is_applied, unkept_ids
from barnabas.registry.core.registration import Registration
from barnabas.registry.core.registry_state import RegistryState, tombstone, value_of
from barnabas.registry.core.schema_queries import SchemaQueries
from barnabas.registry.core.topic_records import (
    RecordError,
    SchemaKey,
    TopicRecord,
    decode_record,
    encode_value,
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
        self._key_bytes = KeyBytes()

    def replay(
        self, key: bytes | None, value: bytes | None, *, offset: int, timestamp_ms: int
    ) -> SkippedRecord | None:
        """Take in a record of ``_schemas``; return what was wrong with it when it is skipped."""
        try:
            record = decode_record(key, value)
        except RecordError as error:
            self.skipped_records += 1
            return SkippedRecord(offset, str(error))
        if key is not None:
            self._key_bytes.note(record.key, key, is_tombstone=value is None)
        self.state.apply(record, timestamp_ms)
        return None

    def encoded(self, records: Sequence[TopicRecord]) -> list[tuple[bytes, bytes | None]]:
        """Return keys and values to append, highest ids that the records would lose first.

        Raises RecordError when a record could not be read back.
        """
        written: list[tuple[bytes, bytes | None]] = []
        for record in (*ids_to_keep(self.state, records), *records):
            value = encode_value(record)
            written += [(key, value) for key in self._key_bytes.all_of(record.key)]
        for key, value in written:
            decode_record(key, value)
        return written

    def has_applied(self, records: Sequence[TopicRecord]) -> bool:
        """True when the state is what the records say."""
        return all(is_applied(self.state, record) for record in records)

    def take_repairs(self) -> list[TopicRecord]:
        """Return the records without which compaction would change the state.

        Versions that an undone record would replace; keys that were deleted under some of their
        bytes only; highest ids that are in no record.
        """
        state = self.state
        found = [state.version(*key, deleted=True) for key in sorted(state.conflicts)]
        state.conflicts.clear()
        return [
            *(
                TopicRecord(SchemaKey(version.subject, version.version), value_of(version))
                for version in found
                if version is not None
            ),
            *(tombstone(key) for key in self._key_bytes.take_left()),
            *unkept_ids(state),
        ]
