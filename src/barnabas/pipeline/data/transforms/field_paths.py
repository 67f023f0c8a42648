"""Paths of fields: a name (V1), or names joined by dots with backticks around dots (V2)."""

from typing import Final

from barnabas.pipeline.data.connect_errors import EmptyPathError
from barnabas.pipeline.data.connect_schema import Field, Schema, Struct
from barnabas.pipeline.data.records import ConnectValue
from barnabas.pipeline.data.transforms.transform_base import require_map, require_struct
from barnabas.pipeline.definitions.config_types import ConfigValueError

_NESTED: Final = "nested field access"


class FieldPath:
    """A field of a struct or a map."""

    def __init__(self, text: str, *, is_nested: bool) -> None:
        steps = _steps(text) if is_nested else [text]
        self._outer = steps[:-1]
        self._name = steps[-1] if steps else None

    @property
    def _last(self) -> str:
        """The last name. Raises EmptyPathError when there is none."""
        if self._name is None:
            raise EmptyPathError("fromIndex(0) > toIndex(-1)")  # the text of Java's List.subList
        return self._name

    def field_of(self, schema: Schema) -> Field | None:
        """Return the field of a struct's schema, None when it is missing. Raises DataError."""
        for step in self._outer:
            field = schema.field(step)
            if field is None:
                return None
            schema = field.schema
        return schema.field(self._last)

    def of_struct(self, struct: Struct, *, replaces_null: bool) -> ConnectValue:
        """Return the value in a struct, None when a step is missing. Raises DataError."""
        for step in self._outer:
            field = struct.schema.field(step)
            inner = None if field is None else struct.value_of(field)
            if inner is None:
                return None
            struct = require_struct(inner, _NESTED, field and field.schema)
        field = struct.schema.field(self._last)
        if field is None:
            return None
        return struct.value_of(field) if replaces_null else struct.values[field.index]

    def of_map(self, value: dict[str, ConnectValue]) -> ConnectValue:
        """Return the value in a map, None when a step is missing. Raises DataError."""
        for step in self._outer:
            inner = value.get(step)
            if inner is None:
                return None
            value = require_map(inner, _NESTED)
        return value.get(self._last)


def _steps(path: str) -> list[str]:
    """Return the names of a path. Raises ConfigValueError."""
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            step, at = _quoted(path, at)
            steps.append(step)
            continue
        dot = path.find(".", at)
        steps.append(path[at:] if dot < 0 else path[at:dot])
        at = len(path) if dot < 0 else dot + 1
    if path.endswith("."):
        steps.append("")
    return steps


def _quoted(path: str, opened: int) -> tuple[str, int]:
    """Return a name in backticks and the place after its dot.

    A backtick ends the name when a dot or the end of the path follows and no backslash precedes.
    """
    name = ""
    start = at = opened + 1
    while True:
        at = path.find("`", at)
        if at < 0:
            raise _incomplete(path, opened)
        is_escaped = path[at - 1] == "\\"
        if at == len(path) - 1:
            if is_escaped:
                raise _incomplete(path, opened)
            return name + path[start:at], at + 1
        if path[at + 1] != ".":
            at += 1
        elif is_escaped:
            name += path[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return name + path[start:at], at + 2


def _incomplete(path: str, opened: int) -> ConfigValueError:
    return ConfigValueError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick "
        f"at position {opened} to escape it"
    )
