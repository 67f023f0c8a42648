"""Resolve the type names of a Protobuf file."""

from collections.abc import Iterable, Iterator, Mapping

import attrs

from barnabas.registry.formats.protobuf.proto_types import (
    SCALARS,
    Field,
    MapType,
    Message,
    ProtoFile,
)
from barnabas.registry.formats.protobuf.proto_well_known import WELL_KNOWN
from barnabas.registry.formats.schema_format import SchemaError

_KEYS = SCALARS - {"float", "double", "bytes"}


def fields_of(message: Message) -> Iterator[Field]:
    """Yield the fields of a message, those of its oneofs included."""
    yield from message.fields
    for oneof in message.oneofs:
        yield from oneof.fields


@attrs.frozen
class Declared:
    """A type that can be named: ``kind`` is ``message`` or ``enum``.

    ``local`` is its name without the package of its file. ``origin`` names the reference that
    declares it, and is empty for the file itself. Well-known types have no ``message``.
    """

    kind: str
    full: str
    local: str
    origin: str = ""
    message: Message | None = None


@attrs.frozen
class Names:
    """The types that a file can refer to, by full name."""

    declared: Mapping[str, Declared]

    def resolve(self, name: str, scope: str) -> Declared:
        """Return the type that a name means inside of a scope.

        Raises SchemaError when there is none.
        """
        if name.startswith("."):
            found = self.declared.get(name[1:])
        else:
            found = self.declared.get(f"{scope}.{name}" if scope else name)
            while found is None and scope:
                scope = scope.rpartition(".")[0]
                found = self.declared.get(f"{scope}.{name}" if scope else name)
        if found is None:
            raise SchemaError(f"unknown type {name}")
        return found


def names_of(file: ProtoFile, references: Mapping[str, ProtoFile]) -> Names:
    """Return the names that are visible in a file: its own, and those of what it imports.

    Raises SchemaError for an import that is neither well known nor a reference.
    """
    declared: dict[str, Declared] = {}
    for name, reference in references.items():
        for path in reference.imports:
            declared.update(WELL_KNOWN_TYPES.get(path.path, {}))
        declared.update(_declared(reference, name))
    for imported in file.imports:
        if imported.path not in references:
            if imported.path not in WELL_KNOWN_TYPES:
                raise SchemaError(f"unknown import {imported.path}")
            declared.update(WELL_KNOWN_TYPES[imported.path])
    declared.update(_declared(file, ""))
    return Names(declared)


def check_names(file: ProtoFile, names: Names) -> None:
    """Check that all types which a file names exist.

    Raises SchemaError for one that does not.
    """
    for message in file.messages:
        _check_message(message, file.package, names)
    for extend in file.extends:
        names.resolve(extend.name, file.package)
        _check_fields(extend.fields, file.package, names)
    for service in file.services:
        for rpc in service.rpcs:
            names.resolve(rpc.request, file.package)
            names.resolve(rpc.response, file.package)


def _check_message(message: Message, scope: str, names: Names) -> None:
    scope = f"{scope}.{message.name}" if scope else message.name
    _check_fields(fields_of(message), scope, names)
    for group in message.groups:
        _check_fields(group.fields, scope, names)
    for extend in message.extends:
        names.resolve(extend.name, scope)
        _check_fields(extend.fields, scope, names)
    for nested in message.messages:
        _check_message(nested, scope, names)


def _check_fields(fields: Iterable[Field], scope: str, names: Names) -> None:
    for field in fields:
        written = field.type
        if isinstance(written, MapType):
            if written.key not in _KEYS:
                raise SchemaError(f"{written.key} cannot be the key of a map")
            written = written.value
        if written not in SCALARS:
            names.resolve(written, scope)


def _declared(file: ProtoFile, origin: str) -> Iterator[tuple[str, Declared]]:
    prefix = f"{file.package}." if file.package else ""
    waiting: list[tuple[str, ProtoFile | Message]] = [("", file)]
    while waiting:
        inside, holder = waiting.pop()
        if isinstance(holder, Message):
            for group in holder.groups:
                local = inside + group.name
                message = Message(group.name, group.fields)
                yield prefix + local, Declared("message", prefix + local, local, origin, message)
        for enum in holder.enums:
            local = inside + enum.name
            yield prefix + local, Declared("enum", prefix + local, local, origin)
        for message in holder.messages:
            local = inside + message.name
            yield prefix + local, Declared("message", prefix + local, local, origin, message)
            waiting.append((f"{local}.", message))


WELL_KNOWN_TYPES = {
    path: {full: Declared(kind, full, full, path) for full, kind in kinds.items()}
    for path, kinds in WELL_KNOWN.items()
}
