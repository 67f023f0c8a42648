"""Checking a new schema against earlier versions of its subject.

Versions are checked from the newest; a level that is not transitive checks the newest only, and
the first version that fails ends the check.
"""

from collections.abc import Sequence

import attrs

from barnabas.registry.core.parsed_schemas import ParsedSchemas
from barnabas.registry.core.registry_errors import RegistryError, incompatible, invalid_schema
from barnabas.registry.core.schema_entities import Metadata, SchemaContent, SchemaVersion
from barnabas.registry.core.topic_records import SubjectConfig
from barnabas.registry.formats import (
    CompatibilityPolicy,
    ParsedSchema,
    SchemaTooComplexError,
)

DEFAULT_LEVEL = "BACKWARD"

# A longer text of an old schema is cut in messages.
_SHOWN_TEXT_MAX = 10 * 1024

_RESERVED_PROPERTY = "confluent:reserved"


@attrs.frozen
class CheckResult:
    """The result of a check: lines for people, and the same as data. Empty when compatible."""

    messages: tuple[str, ...] = ()
    details: tuple[dict[str, object], ...] = ()

    @property
    def is_compatible(self) -> bool:
        """True when nothing was found."""
        return not self.messages

    def refusal(self, subject: str) -> RegistryError:
        """Return the error that refuses the registration."""
        listed = ", ".join(self.messages)
        return incompatible(
            "Schema being registered is incompatible with an earlier schema for subject "
            f'"{subject}", details: [{listed}]',
            list(self.details),
        )


def check_compatibility(
    parsed_schemas: ParsedSchemas,
    content: SchemaContent,
    parsed: ParsedSchema,
    earlier: Sequence[SchemaVersion],
    config: SubjectConfig,
) -> CheckResult:
    """Return what keeps a schema from following the earlier versions, given oldest first."""
    level = config.compatibility_level or DEFAULT_LEVEL
    if level == "NONE":
        return CheckResult()
    earlier = _of_group(earlier, content.metadata, config.compatibility_group)
    checked = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
    for old in reversed(checked):
        result = _check_one(parsed_schemas, content, parsed, old, config, level)
        if not result.is_compatible:
            return result
    return CheckResult()


def _of_group(
    earlier: Sequence[SchemaVersion], metadata: Metadata | None, group: str | None
) -> Sequence[SchemaVersion]:
    if not group:
        return earlier
    own = metadata and metadata.get(group)
    return [
        version
        for version in earlier
        if (version.content.metadata and version.content.metadata.get(group)) == own
    ]


def _check_one(
    parsed_schemas: ParsedSchemas,
    content: SchemaContent,
    parsed: ParsedSchema,
    old: SchemaVersion,
    config: SubjectConfig,
    level: str,
) -> CheckResult:
    if old.content.schema_type != content.schema_type:
        return CheckResult(
            (
                "Incompatible because of different schema type: "
                f"{old.content.schema_type} is followed by {content.schema_type}",
            )
        )
    messages, details, has_tail = _reasons(
        parsed, parsed_schemas.parse(old.subject, old.content), config, level
    )
    if config.validate_fields:
        reserved = _reserved_field_faults(content.metadata, parsed, old.content.metadata)
        messages += reserved
        has_tail = has_tail or bool(reserved)
    if messages and has_tail:
        text = old.content.text
        shown = text if len(text) <= _SHOWN_TEXT_MAX else f"{text[:_SHOWN_TEXT_MAX]}..."
        messages += [
            f"{{oldSchemaVersion: {old.version}}}",
            f"{{oldSchema: '{shown}'}}",
            f"{{validateFields: '{str(bool(config.validate_fields)).lower()}', "
            f"compatibility: '{level}'}}",
        ]
    return CheckResult(tuple(messages), tuple(details))


def _reasons(
    new: ParsedSchema, old: ParsedSchema, config: SubjectConfig, level: str
) -> tuple[list[str], list[dict[str, object]], bool]:
    """Return messages, details, and True when the old schema is named after them.

    FULL lists what the old schema cannot read first. The reference names the old schema there
    only when the new schema fails to read old data, and so do we.
    """
    policy = (
        CompatibilityPolicy.LENIENT
        if config.compatibility_policy == "LENIENT"
        else CompatibilityPolicy.STRICT
    )
    messages: list[str] = []
    details: list[dict[str, object]] = []
    has_tail = False
    try:
        if level.startswith(("FORWARD", "FULL")):
            found = old.check_reads(new, policy)
            messages += [each.message(reader_is_new=False) for each in found]
            details += [each.details(reader_is_new=False) for each in found]
            has_tail = bool(found) and level.startswith("FORWARD")
        if level.startswith(("BACKWARD", "FULL")):
            found = new.check_reads(old, policy)
            messages += [each.message() for each in found]
            details += [each.details() for each in found]
            has_tail = has_tail or bool(found)
    except SchemaTooComplexError as error:
        raise invalid_schema(f"The schema is too complex to compare: {error}") from None
    return messages, details, has_tail


def _reserved_field_faults(
    metadata: Metadata | None, parsed: ParsedSchema, old_metadata: Metadata | None
) -> list[str]:
    reserved, old_reserved = _reserved(metadata), _reserved(old_metadata)
    faults = [
        f"{{errorType:'RESERVED_FIELD_REMOVED', description:'Reserved field {name} must stay "
        f"reserved (path '/{name}')', additionalInfo:''}}"
        for name in sorted(old_reserved - reserved)
    ]
    return faults + [
        f"{{errorType:'FIELD_CONFLICTS_WITH_RESERVED_FIELD', description:'Field {name} has a "
        f"reserved name (path '/{name}')', additionalInfo:''}}"
        for name in sorted(reserved & parsed.top_level_fields)
    ]


def _reserved(metadata: Metadata | None) -> frozenset[str]:
    listed = (metadata and metadata.get(_RESERVED_PROPERTY)) or ""
    return frozenset(name.strip() for name in listed.split(",") if name.strip())
