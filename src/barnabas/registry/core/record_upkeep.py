"""Promises that hold over compaction: highest ids are kept, and records were applied."""

from collections.abc import Sequence

from barnabas.registry.core.registry_state import ContextIds, RegistryState, VersionKey, value_of
from barnabas.registry.core.subject_names import context_of
from barnabas.registry.core.topic_records import (
    ConfigKey,
    DeleteSubjectKey,
    HighestIdKey,
    ModeKey,
    RecordKey,
    RecordValue,
    SchemaKey,
    SchemaValue,
    TopicRecord,
    encode_value,
)


def ids_to_keep(state: RegistryState, records: Sequence[TopicRecord]) -> list[TopicRecord]:
    """Return records of the highest ids that other records take out of the topic.

    A permanent delete does so, and an import that replaces the id of a version.
    """
    taken: dict[str, set[VersionKey]] = {}
    for record in records:
        if isinstance(record.key, SchemaKey) and _takes_highest_id(state, record.key, record.value):
            key = record.key.subject, record.key.version
            taken.setdefault(context_of(record.key.subject), set()).add(key)
    found = [(context, state.ids_of(context), taken[context]) for context in sorted(taken)]
    return [
        _highest_id(context, ids)
        for context, ids, keys in found
        if ids.versions[ids.max_id] <= keys
    ]


def _takes_highest_id(state: RegistryState, key: SchemaKey, value: RecordValue) -> bool:
    version = state.version(key.subject, key.version, deleted=True)
    ids = state.ids_of(context_of(key.subject))
    if version is None or version.schema_id != ids.max_id or ids.kept_id >= ids.max_id:
        return False
    return not isinstance(value, SchemaValue) or value.schema_id != version.schema_id


def unkept_ids(state: RegistryState) -> list[TopicRecord]:
    """Return records of highest ids that no version has, as another registry deleted it."""
    found = ((context, state.ids_of(context)) for context in state.id_contexts())
    return [
        _highest_id(context, ids)
        for context, ids in found
        if ids.max_id > ids.kept_id and ids.max_id not in ids.versions
    ]


def _highest_id(context: str, ids: ContextIds) -> TopicRecord:
    return TopicRecord(HighestIdKey(context), ids.max_id)


def is_applied(state: RegistryState, record: TopicRecord) -> bool:
    """True when the state is what a record says."""
    if isinstance(record.key, DeleteSubjectKey):
        versions = state.versions(record.key.subject)
        return not isinstance(record.value, int) or all(v.version > record.value for v in versions)
    if not isinstance(record.key, SchemaKey | ConfigKey | ModeKey):
        return True
    held = TopicRecord(record.key, _held(state, record.key))
    return encode_value(held) == encode_value(record)


def _held(state: RegistryState, key: RecordKey) -> RecordValue:
    match key:
        case SchemaKey(subject, number):
            version = state.version(subject, number, deleted=True)
            return None if version is None else value_of(version)
        case ConfigKey(subject):
            return state.configs.get(subject)
        case ModeKey(subject):
            return state.modes.get(subject)
        case _:
            return None
