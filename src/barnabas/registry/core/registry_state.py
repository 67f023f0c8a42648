"""The registry's state: what replaying ``_schemas`` from its start gives.

Only :meth:`RegistryState.apply` changes it. Ids belong to a context: equal content has one id
there, and a new id is one more than the largest that was ever seen.
"""

from collections.abc import Iterator

import attrs

from barnabas.registry.core.json_fields import LAST_NUMBER
from barnabas.registry.core.schema_entities import SchemaContent, SchemaReference, SchemaVersion
from barnabas.registry.core.subject_names import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    SubjectName,
    context_of,
    context_subject,
    qualified_in,
)
from barnabas.registry.core.topic_records import (
    Association,
    AssociationKey,
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    HighestIdKey,
    ModeKey,
    RecordKey,
    SchemaKey,
    SchemaValue,
    SubjectConfig,
    TopicRecord,
)

VersionKey = tuple[str, int]


@attrs.define
class ContextIds:
    """The ids of one context, and which versions have them."""

    max_id: int = 0
    kept_id: int = 0
    """The id in the topic's record of the highest id."""
    contents: dict[int, SchemaContent] = attrs.Factory(dict[int, SchemaContent])
    guids: dict[int, str] = attrs.Factory(dict[int, str])
    ids: dict[str, int] = attrs.Factory(dict[str, int])
    versions: dict[int, set[VersionKey]] = attrs.Factory(dict[int, set[VersionKey]])


@attrs.frozen
class TimedAssociation:
    """An association with the times of its first and last record."""

    association: Association
    created_ms: int
    updated_ms: int


class RegistryState:
    """The state that the records of ``_schemas`` make. Its queries return values, never copies."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SchemaVersion]] = {}
        self.configs: dict[str | None, SubjectConfig] = {}
        self.modes: dict[str | None, str] = {}
        self.associations: dict[AssociationKey, TimedAssociation] = {}
        self.referrers: dict[VersionKey, set[VersionKey]] = {}
        self.undone_records = 0
        # Versions whose record was followed by another one that does not count: compaction
        # would keep that one, unless the leader writes the version again.
        self.conflicts: set[VersionKey] = set()
        self._contexts: set[str] = set()
        self._ids: dict[str, ContextIds] = {}

    # Replay.

    def apply(self, record: TopicRecord, timestamp_ms: int) -> None:
        """Take in one record of the topic."""
        match record.key:
            case SchemaKey(subject, version):
                if isinstance(record.value, SchemaValue):
                    self._put_version(record.value, timestamp_ms)
                else:
                    self._remove_version((subject, version))
            case ConfigKey(subject):
                if isinstance(record.value, SubjectConfig):
                    self.configs[subject] = record.value
                else:
                    self.configs.pop(subject, None)
            case ModeKey(subject):
                if isinstance(record.value, str):
                    self.modes[subject] = record.value
                else:
                    self.modes.pop(subject, None)
            case DeleteSubjectKey(subject):
                if isinstance(record.value, int):
                    self._soft_delete(subject, record.value)
            case ClearSubjectKey(subject):
                for version in [v for v in self.subjects.get(subject, {}).values() if v.deleted]:
                    self._remove_version(version.key)
            case ContextKey(context):
                if record.value is None:
                    self._contexts.discard(context)
                else:
                    self._contexts.add(context)
            case HighestIdKey(context):
                ids = self._ids.setdefault(context, ContextIds())
                ids.kept_id = record.value if isinstance(record.value, int) else 0
                ids.max_id = max(ids.max_id, min(ids.kept_id, LAST_NUMBER))
            case AssociationKey():
                self._put_association(record.key, record.value, timestamp_ms)
            case _:
                pass

    def _put_version(self, value: SchemaValue, timestamp_ms: int) -> None:
        ids = self._ids.setdefault(context_of(value.subject), ContextIds())
        if value.schema_id <= LAST_NUMBER:
            ids.max_id = max(ids.max_id, value.schema_id)
        guid = value.content.guid()
        if self._is_conflict(value, ids.guids.get(value.schema_id, guid) != guid):
            self.undone_records += 1
            if value.version in self.subjects.get(value.subject, {}):
                self.conflicts.add((value.subject, value.version))
            return
        self._remove_version((value.subject, value.version))
        content = ids.contents.setdefault(value.schema_id, value.content)
        ids.guids[value.schema_id] = guid
        ids.ids.setdefault(guid, value.schema_id)
        version = SchemaVersion(
            value.subject,
            value.version,
            value.schema_id,
            ids.guids[value.schema_id],
            content,
            value.deleted,
            timestamp_ms,
        )
        ids.versions.setdefault(value.schema_id, set()).add(version.key)
        self.subjects.setdefault(value.subject, {})[value.version] = version
        for reference in content.references:
            self.referrers.setdefault(reference_key(version.subject, reference), set()).add(
                version.key
            )

    def _is_conflict(self, value: SchemaValue, is_other_content: bool) -> bool:
        """True when an id gets a second content, or a version another id outside of imports.

        That happens when two instances write at the same time, each as the leader: the first
        record counts.
        """
        former = self.subjects.get(value.subject, {}).get(value.version)
        is_other_id = former is not None and former.schema_id != value.schema_id
        return is_other_content or (is_other_id and self.mode_in_scope(value.subject) != "IMPORT")

    def _remove_version(self, key: VersionKey) -> None:
        subject, number = key
        versions = self.subjects.get(subject, {})
        version = versions.pop(number, None)
        if version is None:
            return
        if not versions:
            del self.subjects[subject]
        for reference in version.content.references:
            referred = reference_key(subject, reference)
            referrers = self.referrers.get(referred, set())
            referrers.discard(key)
            if not referrers:
                self.referrers.pop(referred, None)
        ids = self._ids[context_of(subject)]
        holders = ids.versions[version.schema_id]
        holders.discard(key)
        if not holders:
            del ids.versions[version.schema_id]
            del ids.contents[version.schema_id]
            guid = ids.guids.pop(version.schema_id)
            if ids.ids.get(guid) == version.schema_id:
                del ids.ids[guid]

    def _soft_delete(self, subject: str, last: int) -> None:
        versions = self.subjects.get(subject, {})
        for number, version in versions.items():
            if number <= last and not version.deleted:
                versions[number] = attrs.evolve(version, deleted=True)

    def _put_association(self, key: AssociationKey, value: object, timestamp_ms: int) -> None:
        if not isinstance(value, Association):
            self.associations.pop(key, None)
            return
        former = self.associations.get(key)
        created_ms = timestamp_ms if former is None else former.created_ms
        self.associations[key] = TimedAssociation(value, created_ms, timestamp_ms)

    # Subjects and versions.

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """Return the versions of a subject in order, optionally with soft-deleted ones."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def version(self, subject: str, number: int, *, deleted: bool = False) -> SchemaVersion | None:
        """Return one version."""
        found = self.subjects.get(subject, {}).get(number)
        return found if found is not None and (deleted or not found.deleted) else None

    def latest(self, subject: str, *, deleted: bool = False) -> SchemaVersion | None:
        """Return the newest version."""
        found = self.versions(subject, deleted=deleted)
        return found[-1] if found else None

    def next_version(self, subject: str) -> int:
        """Return the number of the next version; soft-deleted ones keep theirs."""
        return max(self.subjects.get(subject, {}), default=0) + 1

    def active_referrers(self, key: VersionKey, *, deleted: bool = False) -> list[SchemaVersion]:
        """Return the versions that refer to one, optionally with soft-deleted ones."""
        found = (self.subjects[subject][number] for subject, number in self.referrers.get(key, ()))
        return sorted(
            (version for version in found if deleted or not version.deleted),
            key=lambda version: version.key,
        )

    # Ids.

    def ids_of(self, context: str) -> ContextIds:
        """Return the ids of a context (empty for an unknown one)."""
        return self._ids.get(context) or ContextIds()

    def holders(self, context: str, schema_id: int) -> list[SchemaVersion]:
        """Return the versions with an id, by subject and version."""
        keys = sorted(self.ids_of(context).versions.get(schema_id, ()))
        return [self.subjects[subject][number] for subject, number in keys]

    def id_contexts(self) -> list[str]:
        """Return the contexts that have ids, the default one first."""
        return sorted(self._ids, key=lambda context: (context != DEFAULT_CONTEXT, context))

    def id_count(self) -> int:
        """Return how many ids are in use."""
        return sum(len(ids.contents) for ids in self._ids.values())

    # Contexts, configuration and modes.

    def contexts(self) -> list[str]:
        """Return the contexts in order; the default one always exists."""
        in_use = {context_of(subject) for subject in self.subjects}
        return sorted({DEFAULT_CONTEXT} | self._contexts | in_use)

    def has_context(self, context: str) -> bool:
        """True when a context has its own record."""
        return context == DEFAULT_CONTEXT or context in self._contexts

    def config_in_scope(self, subject: str | None) -> SubjectConfig:
        """Return the configuration that holds for a subject.

        The nearest of: the subject's, its context's, that of all contexts. What the registry's
        own configuration says of normalizing, validation, policy and group fills the gaps.
        """
        top = self.configs.get(None)
        for scope in scopes(subject):
            found = self.configs.get(scope)
            if found is not None:
                return found if scope is None or top is None else _filled(found, top)
        return SubjectConfig()

    def mode_in_scope(self, subject: str | None) -> str:
        """Return the mode that holds for a subject."""
        for override in (None, context_subject(GLOBAL_CONTEXT)):
            if self.modes.get(override) == "READONLY_OVERRIDE":
                return "READONLY_OVERRIDE"
        for scope in scopes(subject):
            found = self.modes.get(scope)
            if found is not None:
                return found
        return "READWRITE"

    def alias_target(self, subject: str) -> str:
        """Return the subject that a name stands for: itself, unless it is an alias."""
        config = self.configs.get(subject)
        if config is None or not config.alias:
            return subject
        return qualified_in(context_of(subject), config.alias)


def _filled(found: SubjectConfig, top: SubjectConfig) -> SubjectConfig:
    inherited = (
        "normalize",
        "validate_fields",
        "validate_new_schemas",
        "validate_rules",
        "compatibility_policy",
        "compatibility_group",
    )
    gaps = {name: getattr(top, name) for name in inherited if getattr(found, name) is None}
    return attrs.evolve(found, **gaps) if gaps else found


def scopes(subject: str | None) -> Iterator[str | None]:
    """Return the names under which settings of a subject are looked for, nearest first."""
    if subject is not None:
        yield subject
        name = SubjectName.parse(subject)
        if name.context != DEFAULT_CONTEXT:
            yield context_subject(name.context)
        else:
            yield None
    else:
        yield None
    yield context_subject(GLOBAL_CONTEXT)


def reference_key(subject: str, reference: SchemaReference) -> VersionKey:
    """Return the version that a schema of a subject refers to: bare names stay in its context."""
    return qualified_in(context_of(subject), reference.subject), reference.version


def value_of(version: SchemaVersion, *, deleted: bool | None = None) -> SchemaValue:
    """Return the value of the record that would write a version again."""
    return SchemaValue(
        version.subject,
        version.version,
        version.schema_id,
        version.content,
        version.deleted if deleted is None else deleted,
    )


def tombstone(key: RecordKey) -> TopicRecord:
    """Return the tombstone of a key."""
    return TopicRecord(key, None)
