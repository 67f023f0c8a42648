"""Reading the state: lists and single schemas, in the form of the answers."""

import re
from collections.abc import Callable
from typing import Any

import attrs

from barnabas.registry.core.json_fields import INT_MAX
from barnabas.registry.core.parsed_schemas import ParsedSchemas
from barnabas.registry.core.registry_errors import (
    invalid_version,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from barnabas.registry.core.registry_state import RegistryState, reference_key
from barnabas.registry.core.schema_entities import SchemaVersion
from barnabas.registry.core.schema_requests import tags_to_json
from barnabas.registry.core.subject_names import (
    DEFAULT_CONTEXT,
    context_of,
    context_subject,
    matches_prefix,
)
from barnabas.registry.core.topic_records import Association

LATEST = -1


@attrs.frozen
class View:
    """The form in which a schema is shown."""

    text_format: str = ""
    reference_format: str = ""
    find_tags: tuple[str, ...] = ()
    with_id: bool = True
    with_place: bool = True
    max_id: int | None = None


def version_number(text: str) -> int:
    """Return a version number; ``latest`` and -1 are the latest.

    Raises RegistryError (42202) when the text is neither.
    """
    bare = text.strip()
    if bare in ("latest", "-1"):
        return LATEST
    if not re.fullmatch(r"\+?[0-9]{1,10}", bare) or not 1 <= int(bare) <= INT_MAX:
        raise invalid_version(text)
    return int(bare)


class SchemaQueries:
    """Answers questions about the schemas of a state."""

    def __init__(
        self,
        state: RegistryState,
        parsed_schemas: ParsedSchemas,
        sees: Callable[[str], bool] = lambda _subject: True,
    ) -> None:
        """`sees` is True for a subject that the caller may see."""
        self._state = state
        self._parsed = parsed_schemas
        self._sees = sees

    def seen_by(self, sees: Callable[[str], bool]) -> "SchemaQueries":
        """Return the queries of a caller that may not see all subjects.

        They find schemas by ids, and list, as if only the subjects that it sees existed. A subject
        that the caller names is found: the caller's right to it is checked before.
        """
        return SchemaQueries(self._state, self._parsed, sees)

    def contexts(self) -> list[str]:
        """Return the contexts with a subject that is seen, and the default one."""
        return [
            context
            for context in self._state.contexts()
            if context == DEFAULT_CONTEXT
            or self._sees(context_subject(context))
            or any(
                context_of(each) == context and self._sees(each) for each in self._state.subjects
            )
        ]

    def subjects(self, prefix: str, *, deleted: bool, deleted_only: bool) -> list[str]:
        """Return the names of subjects under a prefix, in order."""
        return sorted(
            subject
            for subject, versions in self._state.subjects.items()
            if matches_prefix(subject, prefix)
            and self._sees(subject)
            and _is_listed((each.deleted for each in versions.values()), deleted, deleted_only)
        )

    def version_numbers(
        self, subject: str, *, deleted: bool, deleted_only: bool, deleted_as_negative: bool
    ) -> list[int]:
        """Return the numbers of a subject's versions, in order.

        Raises RegistryError when there is none.
        """
        shown = self._state.versions(subject, deleted=deleted or deleted_only)
        if deleted_only:
            shown = [version for version in shown if version.deleted]
        if not shown:
            raise subject_not_found(subject)
        return [
            -version.version if version.deleted and deleted_as_negative else version.version
            for version in shown
        ]

    def version(self, subject: str, number: int, *, deleted: bool = False) -> SchemaVersion:
        """Return a version of a subject.

        Raises RegistryError when the subject or the version does not exist.
        """
        found = (
            self._state.latest(subject, deleted=deleted)
            if number == LATEST
            else self._state.version(subject, number, deleted=deleted)
        )
        if found is not None:
            return found
        if not self._state.versions(subject, deleted=deleted):
            raise subject_not_found(subject)
        raise version_not_found(number)

    def with_metadata(
        self, subject: str, wanted: list[tuple[str, str]], *, deleted: bool
    ) -> SchemaVersion:
        """Return the newest version whose metadata has all the wanted properties."""
        versions = self._state.versions(subject, deleted=deleted)
        if not versions:
            raise subject_not_found(subject)
        for version in reversed(versions):
            metadata = version.content.metadata
            if metadata is not None and all(metadata.get(key) == value for key, value in wanted):
                return version
        raise schema_not_found()

    def by_id(self, schema_id: int, subject: str | None) -> SchemaVersion:
        """Return a version with an id: in the subject's context, or else in any.

        A subject that has the id is preferred, then a version that is not deleted.
        """
        for context in self._searched(subject):
            holders = self._holders(context, schema_id)
            if holders:
                return min(holders, key=lambda each: (each.subject != subject, each.deleted))
        raise schema_not_found(schema_id)

    def holders_of_id(
        self, schema_id: int, subject: str | None, *, deleted: bool
    ) -> list[SchemaVersion]:
        """Return all versions with an id, in the first context that has it."""
        for context in self._searched(subject):
            holders = self._holders(context, schema_id)
            shown = [version for version in holders if deleted or not version.deleted]
            if shown:
                return shown
        raise schema_not_found(schema_id)

    def _holders(self, context: str, schema_id: int) -> list[SchemaVersion]:
        holders = self._state.holders(context, schema_id)
        return [each for each in holders if self._sees(each.subject)]

    def _searched(self, subject: str | None) -> list[str]:
        if subject and context_of(subject) != DEFAULT_CONTEXT:
            return [context_of(subject)]
        return self._state.id_contexts()

    def by_guid(self, guid: str) -> SchemaVersion:
        """Return a version with a GUID."""
        for context in self._state.id_contexts():
            schema_id = self._state.ids_of(context).ids.get(guid)
            if schema_id is not None and self._holders(context, schema_id):
                return self.by_id(schema_id, context_subject(context))
        raise schema_not_found(guid)

    def ids_of_guid(self, guid: str) -> list[dict[str, Any]]:
        """Return the id of a GUID in each context that has it."""
        found = (
            (context, self._state.ids_of(context).ids.get(guid))
            for context in self._state.id_contexts()
        )
        return [
            {"context": context, "id": schema_id}
            for context, schema_id in found
            if schema_id is not None and self._holders(context, schema_id)
        ]

    def max_id(self, subject: str | None) -> int:
        """Return the largest id of a context."""
        return self._state.ids_of(context_of(subject or "")).max_id

    def schemas(
        self, prefix: str, *, deleted: bool, latest_only: bool, aliases: bool, rule_type: str
    ) -> list[SchemaVersion]:
        """Return the versions of all subjects under a prefix, by subject and number."""
        found: list[SchemaVersion] = []
        subjects = [each for each in self._state.subjects if matches_prefix(each, prefix)]
        if aliases:
            subjects += [
                self._state.alias_target(each)
                for each in self._state.configs
                if each is not None and matches_prefix(each, prefix)
            ]
        for subject in sorted(filter(self._sees, set(subjects))):
            versions = self._state.versions(subject, deleted=deleted)
            found += versions[-1:] if latest_only else versions
        if rule_type:
            found = [version for version in found if _has_rule(version, rule_type)]
        return found

    def referrer_ids(self, version: SchemaVersion, *, deleted: bool) -> list[int]:
        """Return the ids of the schemas that refer to a version."""
        referrers = self._state.active_referrers(version.key, deleted=deleted)
        return sorted({each.schema_id for each in referrers if self._sees(each.subject)})

    def associations(
        self,
        *,
        subject: str | None = None,
        resource_id: str | None = None,
        resource: tuple[str, str] | None = None,
        resource_type: str = "",
        types: tuple[str, ...] = (),
        lifecycle: str = "",
    ) -> list[dict[str, Any]]:
        """Return associations of a subject or a resource; namespace ``-`` stands for any."""

        def wanted(each: Association) -> bool:
            namespace, name = resource or ("-", each.resource_name)
            return (
                (subject is None or each.subject == subject)
                and (resource_id is None or each.resource_id == resource_id)
                and name == each.resource_name
                and namespace in ("-", each.resource_namespace)
                and resource_type in ("", each.resource_type)
                and (not types or each.association_type in types)
                and lifecycle in ("", each.lifecycle)
                and self._sees(each.subject)
            )

        return [
            {
                "subject": each.association.subject,
                "guid": each.association.guid,
                "resourceName": each.association.resource_name,
                "resourceNamespace": each.association.resource_namespace,
                "resourceId": each.association.resource_id,
                "resourceType": each.association.resource_type,
                "associationType": each.association.association_type,
                "lifecycle": each.association.lifecycle,
                "createTs": each.created_ms,
                "updateTs": each.updated_ms,
            }
            for each in self._state.associations.values()
            if wanted(each.association)
        ]

    def shown(self, version: SchemaVersion, view: View) -> dict[str, Any]:
        """Return the JSON form of a version."""
        answer: dict[str, Any] = {"subject": version.subject, "version": version.version}
        if view.with_id:
            answer["id"] = version.schema_id
        answer["guid"] = version.guid
        answer |= version.content.to_json()
        if view.reference_format == "qualified" and version.content.references:
            answer["references"] = [
                attrs.evolve(each, subject=reference_key(version.subject, each)[0]).to_json()
                for each in version.content.references
            ]
        answer["schema"] = self.text(version, view.text_format)
        if view.find_tags:
            tags = self._tags(version, view.find_tags)
            if tags:
                answer["schemaTags"] = tags
        if view.max_id is not None:
            answer["maxId"] = view.max_id
        if view.with_place:
            answer["ts"] = version.timestamp_ms
            answer["deleted"] = version.deleted
        return answer

    def text(self, version: SchemaVersion, text_format: str) -> str:
        """Return the text of a schema in a format."""
        if not text_format:
            return version.content.text
        return self._parsed.parse(version.subject, version.content).formatted(text_format)

    def _tags(self, version: SchemaVersion, wanted: tuple[str, ...]) -> list[dict[str, Any]]:
        found = self._parsed.parse(version.subject, version.content).tags()
        return [
            tags_to_json(each) for each in found if "*" in wanted or set(wanted) & set(each.tags)
        ]


def _is_listed(deleted_flags: Any, deleted: bool, deleted_only: bool) -> bool:
    """True when a subject is listed: one is deleted when all its versions are."""
    is_deleted = all(deleted_flags)
    return is_deleted if deleted_only else (deleted or not is_deleted)


def _has_rule(version: SchemaVersion, rule_type: str) -> bool:
    rule_set = version.content.rule_set
    return rule_set is not None and any(rule.type == rule_type for rule in rule_set.rules)
