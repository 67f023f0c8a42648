"""Values of folds as JSON: numbers as Python has them, decimals with all their digits.

JSON does not say whether 1.5 is a DOUBLE or a DECIMAL, and a float has 15 digits; a DOUBLE that is
not finite is a text, such as NaN. So the types of Spark decide, where one of both is among them.
"""

import contextlib
import decimal
import json
import re
from decimal import Decimal
from typing import Any, Final, TypeAlias

import attrs

from barnabas.pipeline.streams.serdes import DataType

Shape: TypeAlias = Any
"""How values are converted: a function, a list of the shape of items, a tuple of that of the values
of a map, a dictionary of the shapes of fields, or None for values that stay as they are."""

# Sums of products of Spark's longest decimals, 38 digits.
_ALL_DIGITS: Final = decimal.Context(prec=100)


_NUMBERS: Final = {"decimal": Decimal, "double": float, "float": float}
_CONVERTED: Final = re.compile("|".join(_NUMBERS))


def _shape(kind: DataType) -> Shape:
    name = kind.typeName()
    if name == "array":
        return [_shape(kind.elementType)]
    if name == "map":
        return (_shape(kind.valueType),)
    if name == "struct":
        return {field.name: _shape(field.dataType) for field in kind.fields}
    return _NUMBERS.get(name)


def _converted(value: Any, shape: Shape) -> Any:
    if value is None or shape is None:
        return value
    if isinstance(shape, list):
        return [_converted(each, shape[0]) for each in value]
    if isinstance(shape, tuple):
        return {name: _converted(each, shape[0]) for name, each in value.items()}
    if isinstance(shape, dict):
        return {name: _converted(each, shape.get(name)) for name, each in value.items()}
    return shape(value)


@attrs.frozen
class FoldValues:
    """Reads and writes values of one type."""

    shape: Shape = None
    """None where Python reads the JSON of the type as it is."""
    has_decimals: bool = False

    @classmethod
    def of(cls, kind: DataType) -> "FoldValues":
        """Return the reader of a type of Spark."""
        text = kind.simpleString()
        return cls(_shape(kind) if _CONVERTED.search(text) else None, "decimal(" in text)

    def read(self, data: bytes) -> Any:
        """Return the value of its bytes."""
        value = json.loads(data, parse_float=Decimal if self.has_decimals else None)["v"]
        return _converted(value, self.shape)


def written(value: Any) -> bytes:
    """Return the bytes of a value; decimals are texts, of which Spark reads each digit."""
    return json.dumps({"v": value}, separators=(",", ":"), default=_text).encode()


def _text(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def all_digits() -> contextlib.AbstractContextManager[object]:
    """Let Python's sums of decimals have more than 28 digits."""
    return decimal.localcontext(_ALL_DIGITS)
