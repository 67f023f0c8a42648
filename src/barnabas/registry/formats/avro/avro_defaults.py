"""Check default values against their types."""

from typing import Any

from barnabas.registry.formats.avro.avro_types import (
    ArrayType,
    AvroType,
    EnumType,
    Field,
    FixedType,
    MapType,
    RecordType,
    UnionType,
)
from barnabas.registry.formats.json_text import is_array, is_object

_RANGES = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}


class DefaultCheck:
    """Checks default values; remembers the fields whose own defaults it has checked."""

    def __init__(self) -> None:
        self._open: set[Field] = set()
        self._valid: dict[Field, bool] = {}

    def is_valid(self, avro_type: AvroType, value: Any) -> bool:
        """True when a value of JSON may be the default of a field of this type.

        A union takes a default of any of its branches. A record may leave out fields that have a
        default themselves, unless that default needs the same field's default again.
        """
        if isinstance(avro_type, UnionType):
            return any(self.is_valid(branch, value) for branch in avro_type.branches)
        if isinstance(avro_type, RecordType):
            return is_object(value) and all(
                self._is_valid_field(field, value) for field in avro_type.fields
            )
        if isinstance(avro_type, ArrayType):
            return is_array(value) and all(self.is_valid(avro_type.items, item) for item in value)
        if isinstance(avro_type, MapType):
            return is_object(value) and all(
                self.is_valid(avro_type.values, item) for item in value.values()
            )
        if isinstance(avro_type, EnumType | FixedType):
            return isinstance(value, str)
        return _is_valid_primitive(avro_type.kind, value)

    def _is_valid_field(self, field: Field, value: dict[str, Any]) -> bool:
        if field.name in value:
            return self.is_valid(field.type, value[field.name])
        if not field.has_default or field in self._open:
            return False
        if field not in self._valid:
            self._open.add(field)
            self._valid[field] = self.is_valid(field.type, field.default)
            self._open.discard(field)
        return self._valid[field]


def _is_valid_primitive(kind: str, value: Any) -> bool:
    if kind in ("string", "bytes"):
        return isinstance(value, str)
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind in _RANGES:
        low, high = _RANGES[kind]
        return isinstance(value, int) and low <= value <= high
    return isinstance(value, int | float)
