"""Protobuf as a format of the registry."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

import attrs

from barnabas.registry.formats.protobuf.proto_compatibility import ProtoSchema, check_proto
from barnabas.registry.formats.protobuf.proto_descriptor import (
    descriptor_text,
    file_of_descriptor,
)
from barnabas.registry.formats.protobuf.proto_names import check_names, names_of
from barnabas.registry.formats.protobuf.proto_normal import normal_file, without_extensions
from barnabas.registry.formats.protobuf.proto_parser import parse_proto
from barnabas.registry.formats.protobuf.proto_printer import print_proto
from barnabas.registry.formats.protobuf.proto_types import (
    Field,
    Message,
    Option,
    OptionValue,
    ProtoFile,
)
from barnabas.registry.formats.schema_format import (
    CompatibilityPolicy,
    Incompatibility,
    ParsedSchema,
    ResolvedReference,
    SchemaEntity,
    SchemaError,
    SchemaTags,
    SchemaTooComplexError,
)
from barnabas.registry.formats.tag_changes import changed_tags

_TOO_DEEP = "too complex: messages nest too deep"
_META = {"sr_record": "(confluent.message_meta)", "sr_field": "(confluent.field_meta)"}

_Tagged = TypeVar("_Tagged", Message, Field)


class ProtobufSchema(ParsedSchema):
    """A valid Protobuf schema."""

    schema_type = "PROTOBUF"

    def __init__(self, side: ProtoSchema, references: Sequence[ResolvedReference]) -> None:
        self.references = tuple(references)
        self.side = side
        self._canonical_text = print_proto(side.file)

    @property
    def canonical_text(self) -> str:
        """Return the text in the form of the Java registry, without comments."""
        return self._canonical_text

    def normalized(self) -> "ProtobufSchema":
        """Return the schema with full type names, and sorted where order has no meaning."""
        return self._with_file(normal_file(self.side.file, self.side.names))

    def _with_file(self, file: ProtoFile) -> "ProtobufSchema":
        return ProtobufSchema(attrs.evolve(self.side, file=file), self.references)

    def formatted(self, text_format: str) -> str:
        """Return the text; ``ignore_extensions`` leaves out the options that are extensions.

        With ``serialized``, return a FileDescriptorProto in base64.
        """
        if text_format.lower() == "serialized":
            return descriptor_text(self.side.file, self.side.names)
        if text_format.lower() == "ignore_extensions":
            return print_proto(without_extensions(self.side.file))
        return self._canonical_text

    @property
    def name(self) -> str | None:
        """Return the full name of the first message, or of the first enum."""
        file = self.side.file
        first = next(iter((*file.messages, *file.enums)), None)
        if first is None:
            return None
        return f"{file.package}.{first.name}" if file.package else first.name

    @cached_property
    def used_references(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the references that the file imports."""
        imported = {i.path for i in self.side.file.imports}
        return frozenset(r.name for r in self.references if r.name in imported)

    @property
    def top_level_fields(self) -> frozenset[str]:
        """Return the names of the fields of the first message."""
        messages = self.side.file.messages
        if not messages:
            return frozenset()
        inside = (field.name for oneof in messages[0].oneofs for field in oneof.fields)
        return frozenset((*inside, *(field.name for field in messages[0].fields)))

    def tags(self) -> tuple[SchemaTags, ...]:
        """Return the tags in ``confluent.field_meta`` and ``confluent.message_meta``."""
        found = ((entity, _tags_of(node, entity.kind)) for entity, node in self._entities())
        return tuple(SchemaTags(entity, tags) for entity, tags in found if tags)

    def _entities(self) -> Iterator[tuple[SchemaEntity, Message | Field]]:
        waiting = [(self.side.file.package, m) for m in reversed(self.side.file.messages)]
        while waiting:
            scope, message = waiting.pop()
            full = f"{scope}.{message.name}" if scope else message.name
            yield SchemaEntity(full, "sr_record"), message
            for field in (*message.fields, *(f for o in message.oneofs for f in o.fields)):
                yield SchemaEntity(f"{full}.{field.name}", "sr_field"), field
            waiting += [(full, nested) for nested in reversed(message.messages)]

    def with_tags(
        self, add: Iterable[SchemaTags], remove: Iterable[SchemaTags]
    ) -> "ProtobufSchema":
        """Return the schema with tags added and removed.

        Raises SchemaError when the schema has no such message or field.
        """
        present = {entity: _tags_of(node, entity.kind) for entity, node in self._entities()}
        retag = changed_tags(present, add, remove)
        file = self.side.file
        messages = tuple(_retagged(m, file.package, retag) for m in file.messages)
        return self._with_file(attrs.evolve(file, messages=messages))

    def check_reads(
        self, writer: ParsedSchema, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT
    ) -> list[Incompatibility]:
        """Return why this schema cannot read data of ``writer``. All policies are the same."""
        if not isinstance(writer, ProtobufSchema):
            raise TypeError("a Protobuf schema is compared with a Protobuf schema")
        try:
            return check_proto(self.side, writer.side)
        except RecursionError as error:
            raise SchemaTooComplexError(_TOO_DEEP) from error


class ProtobufFormat:
    """Parses Protobuf schemas, as text or as a FileDescriptorProto in base64."""

    schema_type = "PROTOBUF"

    def parse(
        self, text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = False
    ) -> ProtobufSchema:
        """Return the schema of a text. New schemas and stored ones obey the same rules.

        As in the Java registry, names and numbers of fields need not be unique.

        Raises SchemaError when it is not valid, or imports a file that is not passed.
        """
        try:
            file = _file(text)
            files = {reference.name: _file(reference.text) for reference in references}
            names = names_of(file, files)
            check_names(file, names)
            versions = {r.name: (r.subject, r.version) for r in references}
            return ProtobufSchema(ProtoSchema(file, names, versions), references)
        except RecursionError as error:
            raise SchemaTooComplexError(_TOO_DEEP) from error


def _file(text: str) -> ProtoFile:
    try:
        return parse_proto(text)
    except SchemaTooComplexError:
        raise
    except SchemaError:
        file = file_of_descriptor(text)
        if file is None:
            raise
        return file


def _tags_of(node: Message | Field, kind: str) -> tuple[str, ...]:
    for option in node.options:
        if option.name.removesuffix(".tags") == _META[kind]:
            value = option.value
            if value.kind == "map":
                value = dict(value.entries).get("tags", OptionValue("list"))
            items = value.items if value.kind == "list" else (value,)
            return tuple(item.text for item in items)
    return ()


def _retagged(
    message: Message, scope: str, retag: "dict[SchemaEntity, tuple[str, ...]]"
) -> Message:
    full = f"{scope}.{message.name}" if scope else message.name

    def retagged(field: Field) -> Field:
        return _with(field, "sr_field", retag.get(SchemaEntity(f"{full}.{field.name}", "sr_field")))

    return attrs.evolve(
        _with(message, "sr_record", retag.get(SchemaEntity(full, "sr_record"))),
        fields=tuple(map(retagged, message.fields)),
        oneofs=tuple(
            attrs.evolve(oneof, fields=tuple(map(retagged, oneof.fields)))
            for oneof in message.oneofs
        ),
        messages=tuple(_retagged(nested, full, retag) for nested in message.messages),
    )


def _with(node: _Tagged, kind: str, tags: tuple[str, ...] | None) -> _Tagged:
    if tags is None:
        return node
    name = _META[kind]
    options = [o for o in node.options if o.name not in (name, f"{name}.tags")]
    if tags:
        items = tuple(OptionValue("string", tag) for tag in tags)
        options.append(Option(f"{name}.tags", OptionValue("list", items=items)))
    return attrs.evolve(node, options=tuple(options))
