"""Requests about schemas, and the decisions that they lead to."""

from typing import Any

import attrs

from barnabas.registry.core.json_fields import JsonFields
from barnabas.registry.core.schema_entities import AVRO, Metadata, RuleSet, SchemaReference
from barnabas.registry.core.topic_records import TopicRecord
from barnabas.registry.formats import SchemaEntity, SchemaTags


@attrs.frozen
class Decision:
    """Records to append, and the answer once they have been read back."""

    records: tuple[TopicRecord, ...]
    answer: Any
    status: int = 200


@attrs.frozen
class SchemaRequest:
    """The body of register, lookup and compatibility requests."""

    text: str | None
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    schema_id: int | None = None
    version: int | None = None
    tags_to_add: tuple[SchemaTags, ...] = ()
    tags_to_remove: tuple[SchemaTags, ...] = ()

    @classmethod
    def from_json(cls, fields: JsonFields) -> "SchemaRequest":
        """Return the request of a JSON object. An id or version of 0 and below -1 is absent."""
        schema_id, version = fields.integer("id"), fields.integer("version")
        metadata = fields.inner("metadata", Metadata.from_json)
        rule_set = fields.inner("ruleSet", RuleSet.from_json)
        return cls(
            fields.text("schema"),
            fields.text("schemaType") or AVRO,
            fields.items("references", SchemaReference.from_json),
            metadata,
            rule_set,
            schema_id if schema_id is not None and schema_id >= 0 else None,
            version if version is not None and (version > 0 or version == -1) else None,
            fields.items("schemaTagsToAdd", tags_from_json),
            fields.items("schemaTagsToRemove", tags_from_json),
        )


@attrs.frozen
class TagRequest:
    """The body of a request that registers a version with other tags, metadata or rules."""

    tags_to_add: tuple[SchemaTags, ...] = ()
    tags_to_remove: tuple[SchemaTags, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    rules_to_merge: RuleSet | None = None
    rules_to_remove: tuple[str, ...] = ()
    new_version: int | None = None

    @classmethod
    def from_json(cls, fields: JsonFields) -> "TagRequest":
        """Return the request of a JSON object."""
        return cls(
            fields.items("tagsToAdd", tags_from_json),
            fields.items("tagsToRemove", tags_from_json),
            fields.inner("metadata", Metadata.from_json),
            fields.inner("ruleSet", RuleSet.from_json),
            fields.inner("rulesToMerge", RuleSet.from_json),
            fields.texts("rulesToRemove"),
            fields.integer("newVersion"),
        )


def tags_from_json(fields: JsonFields) -> SchemaTags:
    """Return the tags of a JSON object."""
    entity = fields.inner(
        "schemaEntity",
        lambda inner: SchemaEntity(
            inner.text("entityPath") or "", (inner.text("entityType") or "").lower()
        ),
    )
    return SchemaTags(entity or SchemaEntity("", ""), fields.texts("tags"))


def tags_to_json(tags: SchemaTags) -> dict[str, Any]:
    """Return the JSON form of tags."""
    return {
        "schemaEntity": {"entityPath": tags.entity.path, "entityType": tags.entity.kind},
        "tags": list(tags.tags),
    }
