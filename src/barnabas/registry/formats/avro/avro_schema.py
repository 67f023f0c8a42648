"""Avro as a format of the registry."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from barnabas.registry.formats.avro.avro_compatibility import check_avro
from barnabas.registry.formats.avro.avro_printer import canonical_text, normal_text
from barnabas.registry.formats.avro.avro_reader import AvroReader
from barnabas.registry.formats.avro.avro_types import (
    ArrayType,
    AvroType,
    Field,
    MapType,
    NamedType,
    RecordType,
    UnionType,
)
from barnabas.registry.formats.json_text import is_array
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
_TOO_DEEP = "too complex: types nest too deep"


class AvroSchema(ParsedSchema):
    """A valid Avro schema."""

    schema_type = "AVRO"

    def __init__(
        self, root: AvroType, references: Sequence[ResolvedReference], known_names: frozenset[str]
    ) -> None:
        self.references = tuple(references)
        self.root = root
        self._known_names = known_names
        self._canonical_text = canonical_text(root, known_names)

    @property
    def canonical_text(self) -> str:
        """Return Java's canonical form, referenced types as names."""
        return self._canonical_text

    def normalized(self) -> "AvroSchema":
        """Return the schema with properties and aliases sorted and defaults in one form."""
        return _parse(normal_text(self.root, self._known_names), self.references, is_new=False)

    def formatted(self, text_format: str) -> str:
        """Return the canonical text, or with ``resolved`` one with all types written out."""
        if text_format.lower() == "resolved":
            return canonical_text(self.root)
        return self._canonical_text

    @property
    def name(self) -> str | None:
        """Return the full name of the record, None for any other type."""
        return self.root.name.full if isinstance(self.root, RecordType) else None

    @cached_property
    def used_references(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the references that define a type which the schema reaches."""
        reached = {named.name.full for named in _named_types(self.root)}
        return frozenset(r.name for r in self.references if r.name in reached)

    @property
    def top_level_fields(self) -> frozenset[str]:
        """Return the names of the record's fields."""
        return frozenset(self.root.by_name) if isinstance(self.root, RecordType) else frozenset()

    def tags(self) -> tuple[SchemaTags, ...]:
        """Return the ``confluent:tags`` of records and fields."""
        return tuple(
            SchemaTags(entity, tags)
            for entity, node in _entities(self.root)
            if (tags := _tags_of(node))
        )

    def with_tags(self, add: Iterable[SchemaTags], remove: Iterable[SchemaTags]) -> "AvroSchema":
        """Return the schema with tags added and removed.

        Raises SchemaError when the schema has no such record or field.
        """
        changed = _parse(self._canonical_text, self.references, is_new=False)
        nodes = dict(_entities(changed.root))
        present = {entity: _tags_of(node) for entity, node in nodes.items()}
        for entity, tags in changed_tags(present, add, remove).items():
            nodes[entity].props.pop(_TAGS, None)
            if tags:
                nodes[entity].props[_TAGS] = list(tags)
        return AvroSchema(changed.root, self.references, self._known_names)

    def check_reads(
        self, writer: ParsedSchema, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT
    ) -> list[Incompatibility]:
        """Return why this schema cannot read data of ``writer``. All policies are the same.

        Raises SchemaTooComplexError when there are too many types to compare.
        """
        if not isinstance(writer, AvroSchema):
            raise TypeError("an Avro schema is compared with an Avro schema")
        try:
            return check_avro(self.root, writer.root)
        except RecursionError as error:
            raise SchemaTooComplexError(_TOO_DEEP) from error


class AvroFormat:
    """Parses Avro schemas."""

    schema_type = "AVRO"

    def parse(
        self, text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = False
    ) -> AvroSchema:
        """Return the schema of a text.

        Defaults are checked when the schema ``is_new``. Names always are.
        Raises SchemaError when it is not valid.
        """
        return _parse(text, references, is_new=is_new)


def _parse(text: str, references: Sequence[ResolvedReference], *, is_new: bool) -> AvroSchema:
    reader = AvroReader()
    try:
        reader.validate_defaults = False
        roots = [reader.read(reference.text) for reference in references]
        reader.validate_defaults = is_new
        known = frozenset(root.branch_name for root in roots)
        return AvroSchema(reader.read(text), references, known)
    except RecursionError as error:
        raise SchemaTooComplexError(_TOO_DEEP) from error


def _children(node: AvroType) -> Iterator[AvroType]:
    if isinstance(node, UnionType):
        yield from node.branches
    elif isinstance(node, ArrayType):
        yield node.items
    elif isinstance(node, MapType):
        yield node.values
    elif isinstance(node, RecordType):
        yield from (field.type for field in node.fields)


def _named_types(root: AvroType) -> Iterator[NamedType]:
    """Yield each named type that can be reached, once, in order of the text."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, NamedType):
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
        waiting.extend(reversed(list(_children(node))))


def _entities(root: AvroType) -> Iterator[tuple[SchemaEntity, RecordType | Field]]:
    for node in _named_types(root):
        if isinstance(node, RecordType):
            yield SchemaEntity(node.name.full, "sr_record"), node
            for field in node.fields:
                yield SchemaEntity(f"{node.name.full}.{field.name}", "sr_field"), field


def _tags_of(node: RecordType | Field) -> tuple[str, ...]:
    tags = node.props.get(_TAGS)
    return tuple(str(tag) for tag in tags) if is_array(tags) else ()
