"""JSON Schema as a format of the registry."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urldefrag, urljoin

from barnabas.registry.formats.json_schema.json_compatibility import check_json
from barnabas.registry.formats.json_schema.json_reader import JsonSchemaReader
from barnabas.registry.formats.json_schema.json_types import Node
from barnabas.registry.formats.json_text import is_array, is_object, read_json, write_json
from barnabas.registry.formats.schema_format import (
    CompatibilityPolicy,
    Incompatibility,
    ParsedSchema,
    ResolvedReference,
    SchemaEntity,
    SchemaTags,
    SchemaTooComplexError,
)
from barnabas.registry.formats.tag_changes import changed_tags

_TAGS = "confluent:tags"
_TOO_DEEP = "too complex: schemas nest too deep"
_CRITERIA = ("allOf", "anyOf", "oneOf")


class JsonSchema(ParsedSchema):
    """A valid JSON schema."""

    schema_type = "JSON"

    def __init__(self, value: Any, root: Node, references: Sequence[ResolvedReference]) -> None:
        self.references = tuple(references)
        self.root = root
        self._value = value
        self._canonical_text = write_json(value)

    @property
    def canonical_text(self) -> str:
        """Return the text without spaces, keys in the order in which they were written."""
        return self._canonical_text

    def normalized(self) -> "JsonSchema":
        """Return the schema with the keys of all objects sorted."""
        return JsonSchema(_sorted(self._value), self.root, self.references)

    def formatted(self, text_format: str) -> str:
        """Return the canonical text: JSON Schema has no other formats."""
        return self._canonical_text

    @property
    def name(self) -> str | None:
        """Return the title."""
        title = self._value.get("title") if is_object(self._value) else None
        return title if isinstance(title, str) else None

    @property
    def used_references(self) -> frozenset[str]:
        """Return the references that some ``$ref`` names."""
        base = self._value.get("$id", "") if is_object(self._value) else ""
        base = base if isinstance(base, str) else ""
        used = {urljoin(base, urldefrag(ref).url) for ref in _refs(self._value)}
        return frozenset(r.name for r in self.references if urljoin(base, r.name) in used)

    @property
    def top_level_fields(self) -> frozenset[str]:
        """Return the names of the root's properties."""
        properties = self._value.get("properties") if is_object(self._value) else None
        return frozenset(properties or ())

    def tags(self) -> tuple[SchemaTags, ...]:
        """Return the ``confluent:tags`` of objects and properties."""
        found = ((entity, _tags_of(schema)) for entity, schema in _entities(self._value))
        return tuple(SchemaTags(entity, tags) for entity, tags in found if tags)

    def with_tags(self, add: Iterable[SchemaTags], remove: Iterable[SchemaTags]) -> "JsonSchema":
        """Return the schema with tags added and removed.

        Raises SchemaError when the schema has no such object or property.
        """
        changed = copy.deepcopy(self._value)
        schemas = dict(_entities(changed))
        present = {entity: _tags_of(schema) for entity, schema in schemas.items()}
        for entity, tags in changed_tags(present, add, remove).items():
            schemas[entity].pop(_TAGS, None)
            if tags:
                schemas[entity][_TAGS] = list(tags)
        return JsonSchema(changed, self.root, self.references)

    def check_reads(
        self, writer: ParsedSchema, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT
    ) -> list[Incompatibility]:
        """Return why this schema refuses data of ``writer``.

        Raises SchemaTooComplexError when the comparison takes too many steps.
        """
        if not isinstance(writer, JsonSchema):
            raise TypeError("a JSON schema is compared with a JSON schema")
        try:
            return check_json(self.root, writer.root, policy)
        except RecursionError as error:
            raise SchemaTooComplexError(_TOO_DEEP) from error


class JsonSchemaFormat:
    """Parses JSON schemas of the drafts 4, 6, 7, 2019-09 and 2020-12."""

    schema_type = "JSON"

    def parse(
        self, text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = False
    ) -> JsonSchema:
        """Return the schema of a text. New schemas and stored ones obey the same rules.

        Raises SchemaError when it is not valid, or refers to a schema that is not passed.
        """
        try:
            value = read_json(text, exact=True)
            root = JsonSchemaReader().read(value, references)
            return JsonSchema(value, root, references)
        except RecursionError as error:
            raise SchemaTooComplexError(_TOO_DEEP) from error


def _sorted(value: Any) -> Any:
    if is_object(value):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if is_array(value):
        return [_sorted(item) for item in value]
    return value


def _refs(value: Any) -> Iterator[str]:
    if is_object(value):
        ref = value.get("$ref")
        if isinstance(ref, str):
            yield ref
        for item in value.values():
            yield from _refs(item)
    elif is_array(value):
        for item in value:
            yield from _refs(item)


def _entities(schema: Any, path: str = "") -> Iterator[tuple[SchemaEntity, dict[str, Any]]]:
    """Yield objects and properties with their paths.

    A path alternates kinds and names: ``object.address.object.street``; items of an array are
    ``array``, branches of a combination are ``oneof.0``.
    """
    if not is_object(schema):
        return
    prefix = f"{path}." if path else ""
    properties = schema.get("properties")
    if is_object(properties):
        yield SchemaEntity(f"{prefix}object", "sr_record"), schema
        for name, below in properties.items():
            if is_object(below):
                yield SchemaEntity(f"{prefix}object.{name}", "sr_field"), below
                yield from _entities(below, f"{prefix}object.{name}")
    yield from _entities(schema.get("items"), f"{prefix}array")
    for criterion in _CRITERIA:
        branches = schema.get(criterion)
        if is_array(branches):
            for index, branch in enumerate(branches):
                yield from _entities(branch, f"{prefix}{criterion.lower()}.{index}")


def _tags_of(schema: dict[str, Any]) -> tuple[str, ...]:
    tags = schema.get(_TAGS)
    return tuple(str(tag) for tag in tags) if is_array(tags) else ()
