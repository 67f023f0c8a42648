"""Check whether a reader's Protobuf schema reads what a writer wrote.

Fields are matched by their numbers over the whole message, at any position; names do not
matter. Fields may come and go, as a reader skips what it does not know. The rules, their order
and their paths are those of the Java registry; a path holds names of messages and oneofs and
numbers of fields.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from barnabas.registry.formats.java_hash_order import hash_order
from barnabas.registry.formats.protobuf.proto_names import Declared, Names, fields_of
from barnabas.registry.formats.protobuf.proto_types import (
    SCALARS,
    Field,
    MapType,
    Message,
    ProtoFile,
)
from barnabas.registry.formats.schema_format import Incompatibility

# Scalars of one group read each other's encoding.
_GROUPS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool", "enum"), "varint"),
    **dict.fromkeys(("sint32", "sint64"), "zigzag"),
    **dict.fromkeys(("string", "bytes"), "string"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}

_HINTS = {
    "PACKAGE_CHANGED": "the package is part of the name of every message: keep it",
    "MESSAGE_REMOVED": "the message is missing: keep it, even if it is not used",
    "FIELD_KIND_CHANGED": "messages, maps and scalars are encoded differently: use a new number",
    "FIELD_SCALAR_KIND_CHANGED": "the types are encoded differently: use a new number",
    "FIELD_NAMED_TYPE_CHANGED": "the field has another type: use a new number",
    "FIELD_NUMERIC_LABEL_CHANGED": "repeated numbers are packed: use a new number",
    "REQUIRED_FIELD_ADDED": "old data lacks the field: make it optional",
    "REQUIRED_FIELD_REMOVED": "other readers need the field: keep it",
    "ONEOF_FIELD_REMOVED": "the oneof lost a field: keep it",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "old data may set several of them: leave them outside",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "old data may set it beside others: leave it outside",
}


@attrs.frozen
class ProtoSchema:
    """One side: a file, the names it sees, and the subject and version of each reference."""

    file: ProtoFile
    names: Names
    references: Mapping[str, tuple[str, int]]


def check_proto(reader: ProtoSchema, writer: ProtoSchema) -> list[Incompatibility]:
    """Return why data of the writer cannot be read, empty when it can."""
    return list(_Check(writer, reader).files())


class _Check:
    """One comparison of two schemas. Scopes are full names of messages, or of the package."""

    def __init__(self, old: ProtoSchema, new: ProtoSchema) -> None:
        self._old = old
        self._new = new
        self._imported: dict[tuple[str, str], bool] = {}

    def files(self) -> Iterator[Incompatibility]:
        old, new = self._old.file, self._new.file
        if old.package != new.package:
            yield _reason("PACKAGE_CHANGED", "#/", old.package, new.package)
        scopes = old.package, new.package
        yield from self._messages(scopes, (old.messages, new.messages), "#")

    def _messages(
        self,
        scopes: tuple[str, str],
        messages: tuple[Iterable[Message], Iterable[Message]],
        path: str,
    ) -> Iterator[Incompatibility]:
        before, after = ({message.name: message for message in side} for side in messages)
        for name in hash_order(before, after):
            if name not in before:
                continue
            if name not in after:
                yield _reason("MESSAGE_REMOVED", f"{path}/{name}", name, None)
                continue
            inner = _inside(scopes[0], name), _inside(scopes[1], name)
            yield from self._message(inner, before[name], after[name], f"{path}/{name}")

    def _message(
        self, scopes: tuple[str, str], before: Message, after: Message, path: str
    ) -> Iterator[Incompatibility]:
        yield from _oneofs(before, after, path)
        in_oneofs = {f.number: oneof.name for oneof in after.oneofs for f in oneof.fields}
        old_fields = {field.number: field for field in fields_of(before)}
        new_fields = {field.number: field for field in fields_of(after)}
        for number in sorted({*old_fields, *new_fields}, key=lambda n: (n not in in_oneofs, n)):
            oneof = f"/{in_oneofs[number]}" if number in in_oneofs else ""
            place = f"{path}{oneof}/{number}"
            old_field, new_field = old_fields.get(number), new_fields.get(number)
            if old_field is not None and new_field is not None:
                yield from self._field(scopes, old_field, new_field, place)
            elif new_field is not None and new_field.label == "required":
                yield _reason("REQUIRED_FIELD_ADDED", place, None, new_field.name)
            elif old_field is not None and old_field.label == "required":
                yield _reason("REQUIRED_FIELD_REMOVED", place, old_field.name, None)
        yield from self._messages(scopes, (before.messages, after.messages), path)

    def _field(
        self, scopes: tuple[str, str], before: Field, after: Field, place: str
    ) -> Iterator[Incompatibility]:
        if isinstance(before.type, MapType) and isinstance(after.type, MapType):
            yield from self._types(scopes, before.type.key, after.type.key, place)
            yield from self._types(scopes, before.type.value, after.type.value, place)
            return
        if isinstance(before.type, MapType) or isinstance(after.type, MapType):
            yield _reason("FIELD_KIND_CHANGED", place, _shown(before), _shown(after))
            return
        required = before.label == "required", after.label == "required"
        if required[0] != required[1]:
            rule = "REQUIRED_FIELD_ADDED" if required[1] else "REQUIRED_FIELD_REMOVED"
            yield _reason(rule, place, before.name, after.name)
        # A field without a label is not compared with a repeated one: as in Java.
        labels = {before.label, after.label}
        if len(labels) == 2 and "repeated" in labels and "" not in labels:
            old, new = self._declared(scopes, before.type, after.type)
            if not {_encoding(old), _encoding(new)} & {"string", "message"}:
                yield _reason("FIELD_NUMERIC_LABEL_CHANGED", place, before.label, after.label)
        yield from self._types(scopes, before.type, after.type, place)

    def _types(
        self, scopes: tuple[str, str], before: str, after: str, place: str
    ) -> Iterator[Incompatibility]:
        old, new = self._declared(scopes, before, after)
        if old.kind == new.kind != "scalar":
            is_changed = old.local != new.local
            if not is_changed and self._is_imported(old, new):
                for difference in self._import(old, new):
                    is_changed = True
                    yield difference
                is_changed |= not self._imported[old.full, new.full]
            if is_changed:
                yield _reason("FIELD_NAMED_TYPE_CHANGED", place, old.full, new.full)
        elif "message" in (old.kind, new.kind):
            yield _reason("FIELD_KIND_CHANGED", place, old.full, new.full)
        elif _encoding(old) != _encoding(new):
            yield _reason("FIELD_SCALAR_KIND_CHANGED", place, old.full, new.full)

    def _declared(
        self, scopes: tuple[str, str], before: str, after: str
    ) -> tuple[Declared, Declared]:
        return (
            _declared(self._old.names, before, scopes[0]),
            _declared(self._new.names, after, scopes[1]),
        )

    def _is_imported(self, old: Declared, new: Declared) -> bool:
        """True when the content of two types is compared where they are used.

        Types of the two files themselves are compared there, and a reference to one version of a
        subject is the same on both sides.
        """
        if not old.origin and not new.origin:
            return False
        versions = self._old.references.get(old.origin), self._new.references.get(new.origin)
        return versions[0] != versions[1]

    def _import(self, old: Declared, new: Declared) -> Iterator[Incompatibility]:
        pair = (old.full, new.full)
        if pair in self._imported or old.message is None or new.message is None:
            self._imported.setdefault(pair, True)
            return
        self._imported[pair] = True  # while it is being compared, as the types may be recursive
        is_compatible = True
        path = "#/" + old.local.replace(".", "/")
        for difference in self._message((old.full, new.full), old.message, new.message, path):
            is_compatible = False
            yield difference
        self._imported[pair] = is_compatible


def _inside(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _declared(names: Names, field_type: str, scope: str) -> Declared:
    if field_type in SCALARS:
        return Declared("scalar", field_type, field_type)
    return names.resolve(field_type, scope)


def _oneofs(before: Message, after: Message, path: str) -> Iterator[Incompatibility]:
    yield from _moved(before, after, path)
    left = {field.number for field in fields_of(after)}
    in_oneofs = {field.number for oneof in after.oneofs for field in oneof.fields}
    names = {oneof.name for oneof in after.oneofs}
    for oneof in before.oneofs:
        if oneof.name not in names and not any(f.number in in_oneofs for f in oneof.fields):
            continue
        for field in sorted(oneof.fields, key=lambda f: f.number):
            if field.number not in left:
                place = f"{path}/{oneof.name}/{field.number}"
                yield _reason("ONEOF_FIELD_REMOVED", place, field.name, None)


def _moved(before: Message, after: Message, path: str) -> Iterator[Incompatibility]:
    single = {field.number for field in before.fields}
    oneof_of = {f.number: oneof.name for oneof in before.oneofs for f in oneof.fields}
    for oneof in after.oneofs:
        numbers = {field.number for field in oneof.fields}
        moved = sorted(numbers & single)
        place = f"{path}/{oneof.name}"
        if len(moved) > 1:
            yield _reason("MULTIPLE_FIELDS_MOVED_TO_ONEOF", place, moved, oneof.name)
        elif len({oneof_of[n] for n in numbers if n in oneof_of}) + len(moved) > 1:
            yield _reason("FIELD_MOVED_TO_EXISTING_ONEOF", place, moved, oneof.name)


def _encoding(declared: Declared) -> str:
    if declared.kind == "message":
        return "message"
    return _GROUPS["enum" if declared.kind == "enum" else declared.full]


def _shown(field: Field) -> str:
    if isinstance(field.type, MapType):
        return f"map<{field.type.key}, {field.type.value}>"
    return field.type


def _reason(rule: str, path: str, old: Any, new: Any) -> Incompatibility:
    return Incompatibility(rule, path, new, old, _HINTS[rule])
