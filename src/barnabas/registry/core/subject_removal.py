"""Deciding deletes: of versions, subjects and contexts, soft first, then permanent."""

from barnabas.registry.core.registry_errors import (
    RegistryError,
    context_not_empty,
    operation_not_permitted,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from barnabas.registry.core.registry_state import RegistryState, tombstone, value_of
from barnabas.registry.core.schema_entities import SchemaVersion
from barnabas.registry.core.schema_requests import Decision
from barnabas.registry.core.subject_names import DEFAULT_CONTEXT, context_of
from barnabas.registry.core.topic_records import (
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    ModeKey,
    SchemaKey,
    TopicRecord,
)


def delete_version(state: RegistryState, subject: str, number: int, *, permanent: bool) -> Decision:
    """Decide the delete of one version (-1 is the latest); the answer is its number."""
    _check_writable(state, subject)
    if subject not in state.subjects:
        raise subject_not_found(subject)
    version = (
        state.latest(subject) if number == -1 else state.version(subject, number, deleted=True)
    )
    if version is None:
        raise version_not_found(number)
    _check_unreferenced(state, version, permanent=permanent)
    key = SchemaKey(subject, version.version)
    if permanent:
        if not version.deleted:
            raise version_not_soft_deleted(subject, version.version)
        remaining = len(state.versions(subject, deleted=True)) - 1
        settings = () if remaining else _settings_tombstones(state, subject)
        return Decision((tombstone(key), *settings), version.version)
    if version.deleted:
        raise version_soft_deleted(subject, version.version)
    record = TopicRecord(key, value_of(version, deleted=True))
    return Decision((record,), version.version)


def delete_subject(state: RegistryState, subject: str, *, permanent: bool) -> Decision:
    """Decide the delete of a subject; the answer lists the versions that it ends."""
    _check_writable(state, subject)
    versions = state.versions(subject, deleted=True)
    if not versions:
        raise subject_not_found(subject)
    active = [version for version in versions if not version.deleted]
    if permanent and active:
        raise subject_not_soft_deleted(subject)
    if not permanent and not active:
        raise subject_soft_deleted(subject)
    ended = versions if permanent else active
    for version in ended:
        _check_unreferenced(state, version, permanent=permanent)
    numbers = [version.version for version in ended]
    if not permanent:
        return Decision((TopicRecord(DeleteSubjectKey(subject), numbers[-1]),), numbers)
    records = [tombstone(SchemaKey(subject, number)) for number in reversed(numbers)]
    return Decision((*records, *_settings_tombstones(state, subject)), numbers)


def delete_context(state: RegistryState, context: str) -> Decision:
    """Decide the delete of an empty context."""
    if any(context_of(subject) == context for subject in state.subjects):
        raise context_not_empty(context)
    if context == DEFAULT_CONTEXT:
        raise operation_not_permitted("The default context cannot be deleted")
    if context not in state.contexts():
        raise RegistryError(404, 404, f"Context '{context}' not found")
    return Decision((tombstone(ContextKey(context)),), None, status=204)


def _check_writable(state: RegistryState, subject: str) -> None:
    if state.mode_in_scope(subject).startswith("READONLY"):
        raise operation_not_permitted(f"Subject {subject} is in read-only mode")


def _check_unreferenced(state: RegistryState, version: SchemaVersion, *, permanent: bool) -> None:
    referrers = state.active_referrers(version.key, deleted=permanent)
    if referrers:
        named = ", ".join(f"{each.subject} version {each.version}" for each in referrers[:5])
        raise reference_exists(
            f"One or more references exist to the schema of subject '{version.subject}' "
            f"version {version.version}: {named}"
        )


def _settings_tombstones(state: RegistryState, subject: str) -> tuple[TopicRecord, ...]:
    mode = (tombstone(ModeKey(subject)),) if subject in state.modes else ()
    config = (tombstone(ConfigKey(subject)),) if subject in state.configs else ()
    return mode + config
