"""Deciding a registration: which version and id a schema gets, and which records say so."""

from typing import TypeVar

import attrs

from barnabas.registry.core.compatibility_check import CheckResult, check_compatibility
from barnabas.registry.core.json_fields import LAST_NUMBER
from barnabas.registry.core.parsed_schemas import ParsedSchemas
from barnabas.registry.core.registry_errors import (
    invalid_rule_set,
    invalid_schema,
    invalid_subject,
    no_successor,
    operation_not_permitted,
    version_not_found,
)
from barnabas.registry.core.registry_state import RegistryState, tombstone
from barnabas.registry.core.schema_entities import (
    AVRO,
    VERSION_PROPERTY,
    Metadata,
    RuleSet,
    SchemaContent,
    SchemaVersion,
    merged_metadata,
    merged_rule_set,
)
from barnabas.registry.core.schema_requests import Decision, SchemaRequest, TagRequest
from barnabas.registry.core.subject_names import context_of, is_valid_subject
from barnabas.registry.core.topic_records import (
    ContextKey,
    SchemaKey,
    SchemaValue,
    SubjectConfig,
    TopicRecord,
)
from barnabas.registry.formats import ParsedSchema, SchemaError, SchemaTags


class Registration:
    """Decides registrations against a state. Nothing here changes the state."""

    def __init__(self, state: RegistryState, parsed_schemas: ParsedSchemas) -> None:
        self._state = state
        self._parsed = parsed_schemas

    def register(
        self, subject: str, request: SchemaRequest, *, normalize: bool = False, force: bool = False
    ) -> Decision:
        """Decide a registration; a schema that is there already gets no record.

        Raises RegistryError when the schema is refused.
        """
        mode = self._writable_mode(subject)
        importing = mode == "IMPORT"
        if importing != (request.schema_id is not None):
            raise operation_not_permitted(
                f"Subject {subject} is not in import mode"
                if request.schema_id is not None
                else f"Subject {subject} is in import mode: the id is missing"
            )
        config = self._state.config_in_scope(subject)
        normalize = (normalize or bool(config.normalize)) and not importing
        content, parsed = self._content(subject, request, config, normalize, importing)
        found = self._same_version(subject, request, content, parsed)
        if found is not None:
            return Decision((), _answer(found, request))
        content, number = self._numbered(subject, request, content, importing)
        if not (importing or force or mode == "FORWARD"):
            self._check(subject, content, parsed, config)
        version = self._placed(subject, number, request.schema_id, content)
        return Decision(self._records(version), _answer(version, request))

    def register_tags(self, subject: str, base: SchemaVersion, request: TagRequest) -> Decision:
        """Decide a new version that differs in tags, metadata or rules only."""
        self._writable_mode(subject)
        config = self._state.config_in_scope(subject)
        metadata = request.metadata or base.content.metadata
        rule_set = request.rule_set or base.content.rule_set
        rule_set = _without_rules(
            merged_rule_set(rule_set, request.rules_to_merge), request.rules_to_remove
        )
        content = attrs.evolve(
            base.content, metadata=_given(metadata), rule_set=_checked_rules(rule_set)
        )
        parsed = self._tagged(
            self._parsed.parse(subject, content), request.tags_to_add, request.tags_to_remove
        )
        content = attrs.evolve(content, text=parsed.canonical_text)
        wanted = SchemaRequest(None, version=request.new_version or -1)
        if wanted.version != -1 and wanted.version != self._state.next_version(subject):
            raise invalid_schema("Version is not one more than previous version")
        content, number = self._numbered(subject, wanted, content, importing=False)
        self._check(subject, content, parsed, config)
        version = self._placed(subject, number, None, content)
        return Decision(self._records(version), _answer(version, wanted))

    def check(
        self, subject: str, request: SchemaRequest, version: int | None, *, normalize: bool
    ) -> CheckResult:
        """Return whether a schema may follow a subject's versions, or one of them.

        Raises RegistryError when the schema is not valid or the version does not exist.
        """
        config = self._state.config_in_scope(subject)
        earlier = self._state.versions(subject)
        if version is not None and version != -1:
            found = self._state.version(subject, version)
            if found is None:
                raise version_not_found(version)
            earlier = [found]
        elif version == -1:
            earlier = earlier[-1:]
        normalize = normalize or bool(config.normalize)
        content, parsed = self._content(subject, request, config, normalize, importing=False)
        return check_compatibility(self._parsed, content, parsed, earlier, config)

    def lookup(
        self, subject: str, request: SchemaRequest, *, normalize: bool, deleted: bool
    ) -> SchemaVersion | None:
        """Return the version of a subject that has a schema, or None.

        Metadata and rules are compared when the request has them.
        """
        config = self._state.config_in_scope(subject)
        plain = attrs.evolve(request, version=None)
        content, parsed = self._stored_form(
            subject, plain, None, normalize or bool(config.normalize), is_new=False
        )
        content = attrs.evolve(
            content, metadata=_given(request.metadata), rule_set=_given(request.rule_set)
        )
        versions = self._state.versions(subject, deleted=deleted)
        return self._find(subject, content, parsed, versions, loosely=True)

    def _writable_mode(self, subject: str) -> str:
        if not is_valid_subject(subject):
            raise invalid_subject(subject)
        mode = self._state.mode_in_scope(subject)
        if mode.startswith("READONLY"):
            raise operation_not_permitted(f"Subject {subject} is in read-only mode")
        return mode

    def _content(
        self,
        subject: str,
        request: SchemaRequest,
        config: SubjectConfig,
        normalize: bool,
        importing: bool,
    ) -> tuple[SchemaContent, ParsedSchema]:
        """Return the content to register, with what the configuration adds."""
        previous = self._state.latest(subject)
        is_new = not importing and config.validate_new_schemas is not False
        content, parsed = self._stored_form(subject, request, previous, normalize, is_new=is_new)
        metadata, rule_set = request.metadata, request.rule_set
        if not importing:
            inherited = None if previous is None else previous.content.unpinned()
            metadata = merged_metadata(
                config.default_metadata,
                metadata or (inherited and inherited.metadata),
                config.override_metadata,
            )
            rule_set = merged_rule_set(
                config.default_rule_set,
                rule_set or (inherited and inherited.rule_set),
                config.override_rule_set,
            )
        return (
            attrs.evolve(content, metadata=_given(metadata), rule_set=_checked_rules(rule_set)),
            parsed,
        )

    def _stored_form(
        self,
        subject: str,
        request: SchemaRequest,
        previous: SchemaVersion | None,
        normalize: bool,
        *,
        is_new: bool,
    ) -> tuple[SchemaContent, ParsedSchema]:
        """Return the schema in the form in which it is stored; an empty one is the previous."""
        if not (request.text or "").strip():
            if previous is None:
                raise invalid_schema("Empty schema")
            content = previous.content
        else:
            references = self._parsed.pinned(subject, request.references)
            content = SchemaContent(request.schema_type, request.text or "", references)
        parsed = self._parsed.parse(subject, content, is_new=is_new)
        parsed = self._tagged(parsed, request.tags_to_add, request.tags_to_remove)
        if normalize:
            parsed = parsed.normalized()
        return (
            SchemaContent(content.schema_type, parsed.canonical_text, content.references),
            parsed,
        )

    def _tagged(
        self, parsed: ParsedSchema, add: tuple[SchemaTags, ...], remove: tuple[SchemaTags, ...]
    ) -> ParsedSchema:
        if not (add or remove):
            return parsed
        try:
            return parsed.with_tags(add, remove)
        except SchemaError as error:
            raise invalid_schema(str(error)) from None

    def _same_version(
        self,
        subject: str,
        request: SchemaRequest,
        content: SchemaContent,
        parsed: ParsedSchema,
    ) -> SchemaVersion | None:
        """Return the version that a repeated registration gets."""
        versions = self._state.versions(subject)
        if request.version is not None and request.version != -1:
            versions = [each for each in versions if each.version == request.version]
        if request.schema_id is not None:
            versions = [each for each in versions if each.schema_id == request.schema_id]
        return self._find(subject, content, parsed, versions, loosely=False)

    def _find(
        self,
        subject: str,
        content: SchemaContent,
        parsed: ParsedSchema,
        versions: list[SchemaVersion],
        *,
        loosely: bool,
    ) -> SchemaVersion | None:
        """Return the newest version with a content, an equal one before an equivalent one."""
        for version in reversed(versions):
            if version.content == content:
                return version
        wanted = content.unpinned()
        for version in reversed(versions):
            found = version.content.unpinned()
            if not _same_labels(wanted, found, loosely):
                continue
            if self._same_schema(subject, wanted, parsed, found):
                return version
        return None

    def _same_schema(
        self, subject: str, wanted: SchemaContent, parsed: ParsedSchema, found: SchemaContent
    ) -> bool:
        if wanted.schema_type != found.schema_type:
            return False
        if wanted.text == found.text and wanted.references == found.references:
            return True
        if wanted.references == found.references:
            return False
        if wanted.schema_type != AVRO or (wanted.references and found.references):
            return False
        # One spells out what the other refers to.
        stored = self._parsed.parse(subject, found)
        return stored.formatted("resolved") == parsed.formatted("resolved")

    def _numbered(
        self, subject: str, request: SchemaRequest, content: SchemaContent, importing: bool
    ) -> tuple[SchemaContent, int]:
        """Return the content and number of a new version; asking for a number pins it."""
        number = following = self._state.next_version(subject)
        if importing and request.version is not None and request.version != -1:
            number = request.version
        if number > LAST_NUMBER:
            raise no_successor(f"Subject {subject} cannot have version {number}")
        if importing or request.version is None:
            return content, number
        if request.version not in (-1, following):
            raise invalid_schema("Version is not one more than previous version")
        metadata = content.metadata or Metadata()
        pinned = metadata.with_property(VERSION_PROPERTY, str(following))
        return attrs.evolve(content, metadata=pinned), following

    def _check(
        self, subject: str, content: SchemaContent, parsed: ParsedSchema, config: SubjectConfig
    ) -> None:
        earlier = self._state.versions(subject)
        result = check_compatibility(self._parsed, content, parsed, earlier, config)
        if not result.is_compatible:
            raise result.refusal(subject)

    def _placed(
        self, subject: str, number: int, schema_id: int | None, content: SchemaContent
    ) -> SchemaVersion:
        """Return the new version with its id: that of equal content, or the next one."""
        ids = self._state.ids_of(context_of(subject))
        guid = content.guid()
        if schema_id is None:
            schema_id = ids.ids[guid] if guid in ids.ids else self._next_id(context_of(subject))
        elif schema_id > LAST_NUMBER:
            raise no_successor(f"Schemas cannot have id {schema_id}")
        elif ids.guids.get(schema_id, guid) != guid:
            raise operation_not_permitted(
                f"Overwrite new schema with id {schema_id} is not permitted"
            )
        return SchemaVersion(subject, number, schema_id, guid, content, False, 0)

    def _next_id(self, context: str) -> int:
        schema_id = self._state.ids_of(context).max_id + 1
        if schema_id > LAST_NUMBER:
            raise no_successor(f"Context {context} has no id left")
        return schema_id

    def _records(self, version: SchemaVersion) -> tuple[TopicRecord, ...]:
        context = context_of(version.subject)
        records: list[TopicRecord] = []
        if not self._state.has_context(context):
            records.append(TopicRecord(ContextKey(context), context))
        records += [
            tombstone(SchemaKey(old.subject, old.version))
            for old in self._state.versions(version.subject, deleted=True)
            if old.deleted
            and old.schema_id == version.schema_id
            and old.version != version.version
            and not self._state.active_referrers(old.key, deleted=True)
        ]
        value = SchemaValue(
            version.subject, version.version, version.schema_id, version.content, False
        )
        return (*records, TopicRecord(SchemaKey(version.subject, version.version), value))


def _same_labels(wanted: SchemaContent, found: SchemaContent, loosely: bool) -> bool:
    """True when metadata and rules agree; loosely, absent ones agree with all."""
    return (wanted.metadata == found.metadata or (loosely and wanted.metadata is None)) and (
        wanted.rule_set == found.rule_set or (loosely and wanted.rule_set is None)
    )


_Labels = TypeVar("_Labels", Metadata, RuleSet)


def _given(value: _Labels | None) -> _Labels | None:
    return None if value is None or value.is_empty else value


def _checked_rules(rule_set: RuleSet | None) -> RuleSet | None:
    fault = None if rule_set is None else rule_set.fault()
    if fault is not None:
        raise invalid_rule_set(fault)
    return _given(rule_set)


def _without_rules(rule_set: RuleSet | None, names: tuple[str, ...]) -> RuleSet | None:
    if rule_set is None or not names:
        return rule_set
    return RuleSet(
        tuple(rule for rule in rule_set.migration_rules if rule.name not in names),
        tuple(rule for rule in rule_set.domain_rules if rule.name not in names),
        tuple(rule for rule in rule_set.encoding_rules if rule.name not in names),
        rule_set.enable_at,
    )


def _answer(version: SchemaVersion, request: SchemaRequest) -> dict[str, object]:
    """Return the answer to a registration.

    The schema is repeated only where it is not what the client sent: clients keep the text of
    the answer instead of the one they sent, and some sent another form of it.
    """
    content = version.content
    answer: dict[str, object] = {
        "id": version.schema_id,
        "version": version.version,
        "guid": version.guid,
        "schemaType": content.schema_type,
    }
    changed = (
        not request.text
        or request.tags_to_add
        or request.tags_to_remove
        or _given(request.metadata) != content.metadata
        or _given(request.rule_set) != content.rule_set
    )
    return answer | content.to_json() if changed else answer
