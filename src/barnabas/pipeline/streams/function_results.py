"""Results of users' functions as values of the type that was declared for them.

Spark makes null of a result of another type, such as of the number 1 where DOUBLE is declared. A
null deletes a key of a table, so such results are converted where nothing is lost, else refused.
"""

import datetime
import numbers
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast

from barnabas.pipeline.streams.serdes import DataType

Convert: TypeAlias = Callable[[Any], Any]

_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_CLASSES: Final[dict[str, type]] = {
    "string": str,
    "date": datetime.date,
    "timestamp": datetime.datetime,
    "timestamp_ntz": datetime.datetime,
}
_VALUE_CHARS_MAX: Final = 200


class ResultTypeError(Exception):
    """A function's result does not have the declared type; the message has both."""


def converter(kind: DataType) -> Convert:
    """Return the conversion of results to a type of Spark. It raises ResultTypeError."""
    convert = _converter(kind)

    def converted(value: Any) -> Any:
        return None if value is None else convert(value)

    return converted


def _converter(kind: DataType) -> Convert:
    name, described = str(kind.typeName()), str(kind.simpleString()).upper()
    if name == "boolean":
        return bool
    if name in _BITS:
        return _integer(_BITS[name], described)
    if name in ("float", "double"):
        return _one_of((numbers.Real, Decimal), float, described)
    if name.startswith("decimal"):
        return _one_of((int, Decimal), Decimal, described)
    if name == "binary":
        return _one_of((bytes, bytearray, memoryview), bytes, described)
    if name in _CLASSES:
        return _one_of((_CLASSES[name],), lambda value: value, described)
    return _nested(kind, name, described)


def _nested(kind: DataType, name: str, described: str) -> Convert:
    if name == "array":
        element = converter(kind.elementType)
        return _one_of((Sequence,), lambda value: [element(each) for each in value], described)
    if name == "map":
        key, held = converter(kind.keyType), converter(kind.valueType)

        def entries(value: Mapping[Any, Any]) -> dict[Any, Any]:
            return {key(each): held(found) for each, found in value.items()}

        return _one_of((Mapping,), entries, described)
    if name == "struct":
        return _struct({each.name: converter(each.dataType) for each in kind.fields}, described)
    return lambda value: value


def _one_of(classes: tuple[type, ...], convert: Convert, described: str) -> Convert:
    """Return the conversion of instances of these classes; a text is not a sequence here."""

    def converted(value: Any) -> Any:
        is_text = isinstance(value, str) and str not in classes
        is_truth = isinstance(value, bool)
        is_moment = isinstance(value, datetime.datetime) and classes == (datetime.date,)
        if is_text or is_truth or is_moment or not isinstance(value, classes):
            raise _refused(value, described)
        return convert(value)

    return converted


def _integer(bits: int, described: str) -> Convert:
    half = 1 << (bits - 1)

    def converted(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise _refused(value, described)
        if not -half <= int(value) < half:
            raise _refused(value, described)
        return int(value)

    return converted


def _struct(fields: Mapping[str, Convert], described: str) -> Convert:
    """Return the conversion of dictionaries, rows and objects by name, of tuples by place."""

    def converted(value: Any) -> dict[str, Any]:
        named = _named(value)
        if named is None:
            if not isinstance(value, list | tuple):
                raise _refused(value, described)
            parts = cast("Sequence[Any]", value)
            if len(parts) != len(fields):
                raise _refused(value, described)
            named = dict(zip(fields, parts, strict=True))
        unknown = [name for name in named if name not in fields]
        if unknown:
            raise ResultTypeError(
                f"the result has the field {unknown[0]!r}, which {described} does not have"
            )
        return {name: convert(named.get(name)) for name, convert in fields.items()}

    return converted


def _named(value: Any) -> dict[str, Any] | None:
    """Return the fields of a dictionary, a row or an object, None for what has no names."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if getattr(value, "__fields__", None):
        return cast("dict[str, Any]", value.asDict())
    if isinstance(value, list | tuple):
        return None
    return cast("dict[str, Any]", vars(value)) if hasattr(value, "__dict__") else None


def _refused(value: Any, described: str) -> ResultTypeError:
    shown = repr(value)[:_VALUE_CHARS_MAX]
    return ResultTypeError(
        f"the result {shown} of type {type(value).__name__} does not fit {described}"
    )
