"""Records of ``_schemas``: keys and values, in the bytes that the reference registry writes.

Written compactly with the fields in a fixed order. Reading is more lenient than writing: records
of older versions lack ``schemaType``, or the subject in the value of a config; some writers sort
the fields of keys differently.
"""

from typing import Any

import attrs

from barnabas.registry.core.json_fields import (
    JsonFields,
    MalformedJsonError,
    read_json,
    without_empty,
    write_json,
)
from barnabas.registry.core.schema_entities import (
    AVRO,
    Metadata,
    RuleSet,
    SchemaContent,
    SchemaReference,
)
from barnabas.registry.core.subject_names import normalize_subject

TENANT = "default"
LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
POLICIES = ("STRICT", "LENIENT", "LOGICAL")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")


class RecordError(ValueError):
    """A record of the topic cannot be read; it is skipped and stays in the topic."""


@attrs.frozen
class NoopKey:
    """A record that changes nothing: written to learn the end of the log."""


@attrs.frozen
class HighestIdKey:
    """Key of the highest id that a context ever had: written when the schema of that id goes.

    To the reference registry it is a NOOP: it reads no other field of the key, and no value. An
    unknown key type would end its reader.
    """

    context: str


@attrs.frozen
class SchemaKey:
    """Key of one version of a subject."""

    subject: str
    version: int


@attrs.frozen
class ConfigKey:
    """Key of a configuration: of a subject, a context, or (None) of the registry."""

    subject: str | None


@attrs.frozen
class ModeKey:
    """Key of a mode: of a subject, a context, or (None) of the registry."""

    subject: str | None


@attrs.frozen
class DeleteSubjectKey:
    """Key of a soft delete of a subject's versions up to one."""

    subject: str


@attrs.frozen
class ClearSubjectKey:
    """Key of the record that forgets the soft-deleted versions of a subject."""

    subject: str


@attrs.frozen
class ContextKey:
    """Key of a context."""

    context: str


@attrs.frozen
class AssociationKey:
    """Key of an association between a resource (a topic) and a subject."""

    resource_name: str
    resource_namespace: str
    resource_type: str
    association_type: str
    subject: str


RecordKey = (
    NoopKey
    | HighestIdKey
    | SchemaKey
    | ConfigKey
    | ModeKey
    | DeleteSubjectKey
    | ClearSubjectKey
    | ContextKey
    | AssociationKey
)


@attrs.frozen
class SchemaValue:
    """Value of one version of a subject."""

    subject: str
    version: int
    schema_id: int
    content: SchemaContent
    deleted: bool


@attrs.frozen
class SubjectConfig:
    """A configuration; None is a property that is not set."""

    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: str | None = None
    compatibility_policy: str | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None

    def to_json(self, level_name: str = "compatibilityLevel") -> dict[str, Any]:
        """Return the JSON form; requests to set it name the level ``compatibility``."""
        return without_empty(
            {
                "alias": self.alias,
                "aliasForDeks": self.alias_for_deks,
                "normalize": self.normalize,
                "validateFields": self.validate_fields,
                "validateNewSchemas": self.validate_new_schemas,
                "validateRules": self.validate_rules,
                level_name: self.compatibility_level,
                "compatibilityPolicy": self.compatibility_policy,
                "compatibilityGroup": self.compatibility_group,
                "defaultMetadata": self.default_metadata and self.default_metadata.to_json(),
                "overrideMetadata": self.override_metadata and self.override_metadata.to_json(),
                "defaultRuleSet": self.default_rule_set and self.default_rule_set.to_json(),
                "overrideRuleSet": self.override_rule_set and self.override_rule_set.to_json(),
            }
        )


@attrs.frozen
class Association:
    """A resource (a topic) and the subject that describes it."""

    guid: str
    resource_name: str
    resource_namespace: str
    resource_id: str
    resource_type: str
    association_type: str
    subject: str
    lifecycle: str
    frozen: bool


RecordValue = SchemaValue | SubjectConfig | str | int | Association | None


@attrs.frozen
class TopicRecord:
    """A record of ``_schemas``. Without a value it is a tombstone.

    The value of a mode is its name, of a soft delete its version, of a context its name, of a
    highest id the id.
    """

    key: RecordKey
    value: RecordValue


def encode_key(key: RecordKey) -> bytes:
    """Return the bytes of a key."""
    return write_json(_key_fields(key)).encode()


def _key_fields(key: RecordKey) -> dict[str, Any]:
    match key:
        case SchemaKey(subject, version):
            return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
        case ConfigKey(subject):
            return _settings_key("CONFIG", subject)
        case ModeKey(subject):
            return _settings_key("MODE", subject)
        case DeleteSubjectKey(subject):
            return {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
        case ClearSubjectKey(subject):
            return {"keytype": "CLEAR_SUBJECT", "subject": subject, "magic": 0}
        case ContextKey(context):
            return {"keytype": "CONTEXT", "tenant": TENANT, "context": context, "magic": 0}
        case NoopKey():
            return {"keytype": "NOOP", "magic": 0}
        case HighestIdKey(context):
            return {"keytype": "NOOP", "context": context, "magic": 0}
        case AssociationKey():
            return {
                "keytype": "ASSOC",
                "tenant": TENANT,
                "resourceName": key.resource_name,
                "resourceNamespace": key.resource_namespace,
                "resourceType": key.resource_type,
                "associationType": key.association_type,
                "subject": key.subject,
                "magic": 0,
            }


def _settings_key(keytype: str, subject: str | None) -> dict[str, Any]:
    named = {} if subject is None else {"subject": subject}
    return {"keytype": keytype, **named, "magic": 0}


def encode_value(record: TopicRecord) -> bytes | None:
    """Return the bytes of a value, None for a tombstone."""
    if record.value is None:
        return None
    return write_json(_value_fields(record.key, record.value)).encode()


def _value_fields(key: RecordKey, value: object) -> dict[str, Any]:
    match key, value:
        case SchemaKey(), SchemaValue():
            return {
                "subject": value.subject,
                "version": value.version,
                "id": value.schema_id,
                **value.content.to_json(),
                "deleted": value.deleted,
            }
        case ConfigKey(subject), SubjectConfig():
            return _named(subject) | value.to_json()
        case ModeKey(subject), str():
            return _named(subject) | {"mode": value}
        case DeleteSubjectKey(subject), int():
            return {"subject": subject, "version": value}
        case ClearSubjectKey(subject), str():
            return {"subject": subject}
        case ContextKey(context), str():
            return {"tenant": TENANT, "context": context}
        case HighestIdKey(context), int():
            return {"context": context, "highestId": value}
        case AssociationKey(), Association():
            return _association_fields(value)
        case _:
            raise TypeError(f"{type(value).__name__} is not the value of {type(key).__name__}")


def _named(subject: str | None) -> dict[str, Any]:
    return {} if subject is None else {"subject": subject}


def _association_fields(value: Association) -> dict[str, Any]:
    return {
        "guid": value.guid,
        "tenant": TENANT,
        "resourceName": value.resource_name,
        "resourceNamespace": value.resource_namespace,
        "resourceId": value.resource_id,
        "resourceType": value.resource_type,
        "associationType": value.association_type,
        "subject": value.subject,
        "lifecycle": value.lifecycle,
        "frozen": value.frozen,
    }


def decode_record(key: bytes | None, value: bytes | None) -> TopicRecord:
    """Return the record of a key and a value.

    Raises RecordError when they are not what a registry writes.
    """
    if key is None:
        raise RecordError("record without key")
    try:
        parsed = _decode_key(JsonFields(read_json(key), "key"))
        if value is None:
            return TopicRecord(parsed, None)
        return TopicRecord(parsed, _decode_value(parsed, JsonFields(read_json(value), "value")))
    except MalformedJsonError as error:
        raise RecordError(str(error)) from None


def _decode_key(fields: JsonFields) -> RecordKey:
    keytype = fields.text("keytype")
    magic = fields.integer("magic")
    if magic not in ((0, 1) if keytype == "SCHEMA" else (0,)):
        raise RecordError(f"unknown magic byte {magic} of key type {keytype}")
    subject = fields.text("subject")
    subject = None if subject is None else normalize_subject(subject)
    match keytype:
        case "NOOP":
            context = fields.text("context")
            return NoopKey() if context is None else HighestIdKey(context)
        case "SCHEMA":
            return SchemaKey(_required(subject, "subject"), _required_int(fields, "version"))
        case "CONFIG":
            return ConfigKey(subject)
        case "MODE":
            return ModeKey(subject)
        case "DELETE_SUBJECT":
            return DeleteSubjectKey(_required(subject, "subject"))
        case "CLEAR_SUBJECT":
            return ClearSubjectKey(_required(subject, "subject"))
        case "CONTEXT":
            return ContextKey(_required(fields.text("context"), "context"))
        case "ASSOC":
            return AssociationKey(
                fields.text("resourceName") or "",
                fields.text("resourceNamespace") or "",
                fields.text("resourceType") or "",
                fields.text("associationType") or "",
                _required(subject, "subject"),
            )
        case _:
            raise RecordError(f"unknown key type {keytype}")


def _decode_value(key: RecordKey, fields: JsonFields) -> RecordValue:
    match key:
        case SchemaKey(subject, version):
            return SchemaValue(
                subject,
                version,
                _required_int(fields, "id"),
                _decode_content(fields),
                fields.flag("deleted") or False,
            )
        case ConfigKey():
            return config_from_json(fields, "compatibilityLevel")
        case ModeKey():
            mode = fields.choice("mode", MODES)
            return _required(mode, "mode")
        case DeleteSubjectKey():
            return _required_int(fields, "version")
        case HighestIdKey():
            return _required_int(fields, "highestId")
        case ContextKey(context):
            return context
        case ClearSubjectKey(subject):
            return subject
        case AssociationKey():
            return _decode_association(key, fields)
        case NoopKey():
            return None


def _decode_content(fields: JsonFields) -> SchemaContent:
    return SchemaContent(
        fields.text("schemaType") or AVRO,
        _required(fields.text("schema"), "schema"),
        fields.items("references", SchemaReference.from_json),
        fields.inner("metadata", Metadata.from_json),
        fields.inner("ruleSet", RuleSet.from_json),
    )


def config_from_json(fields: JsonFields, level_name: str) -> SubjectConfig:
    """Return the configuration of a JSON object; unknown levels and policies are left out."""
    level = (fields.text(level_name) or "").upper()
    policy = (fields.text("compatibilityPolicy") or "").upper()
    return SubjectConfig(
        alias=fields.text("alias"),
        alias_for_deks=fields.text("aliasForDeks"),
        normalize=fields.flag("normalize"),
        validate_fields=fields.flag("validateFields"),
        validate_new_schemas=fields.flag("validateNewSchemas"),
        validate_rules=fields.flag("validateRules"),
        compatibility_level=level if level in LEVELS else None,
        compatibility_policy=policy if policy in POLICIES else None,
        compatibility_group=fields.text("compatibilityGroup"),
        default_metadata=fields.inner("defaultMetadata", Metadata.from_json),
        override_metadata=fields.inner("overrideMetadata", Metadata.from_json),
        default_rule_set=fields.inner("defaultRuleSet", RuleSet.from_json),
        override_rule_set=fields.inner("overrideRuleSet", RuleSet.from_json),
    )


def _decode_association(key: AssociationKey, fields: JsonFields) -> Association:
    return Association(
        fields.text("guid") or "",
        key.resource_name,
        key.resource_namespace,
        fields.text("resourceId") or "",
        key.resource_type,
        key.association_type,
        key.subject,
        fields.text("lifecycle") or "WEAK",
        fields.flag("frozen") or False,
    )


def _required(value: str | None, name: str) -> str:
    if value is None:
        raise RecordError(f"{name} is missing")
    return value


def _required_int(fields: JsonFields, name: str) -> int:
    value = fields.integer(name)
    if value is None:
        raise RecordError(f"{name} is missing")
    return value
