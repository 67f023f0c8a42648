"""Reading JSON objects as the reference's clients write them, and writing them compactly.

Scalars are lenient (a number where a text is expected is its text, "1" is 1), structures are
strict. Unknown fields are ignored. Null is the same as absent, except to :meth:`JsonFields.has`.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from barnabas.registry.formats.json_text import json_fault

T = TypeVar("T")

INT_MAX = 2**31 - 1
LAST_NUMBER = INT_MAX - 1
"""The last id and the last version: one more is still an int32, which can be refused."""


class MalformedJsonError(ValueError):
    """A value of JSON does not have the expected type."""


class JsonFields:
    """A JSON object with typed access to its fields."""

    def __init__(self, value: object, what: str = "body") -> None:
        if not isinstance(value, dict):
            raise MalformedJsonError(f"{what} must be a JSON object")
        self._fields: dict[str, Any] = value  # pyright: ignore[reportUnknownMemberType]
        self._what = what

    def has(self, name: str) -> bool:
        """True when the field is given, even as null."""
        return name in self._fields

    def raw(self, name: str) -> Any:
        """Return the field as it was read."""
        return self._fields.get(name)

    def text(self, name: str) -> str | None:
        """Return a text; numbers and booleans are written as JSON writes them."""
        value = self._fields.get(name)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        raise self._mismatch(name, "a string")

    def integer(self, name: str) -> int | None:
        """Return an int32."""
        value: object = self._fields.get(name)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,10}\s*", value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INT_MAX:
            raise self._mismatch(name, "an integer of 32 bits")
        return value

    def flag(self, name: str) -> bool | None:
        """Return a boolean."""
        value = self._fields.get(name)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        raise self._mismatch(name, "a boolean")

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """Return one of the allowed texts."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise self._mismatch(name, f"one of {', '.join(allowed)}")
        return value

    def items(self, name: str, read: Callable[["JsonFields"], T]) -> tuple[T, ...]:
        """Return a list of objects."""
        value = self._fields.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self._mismatch(name, "a list")
        found: list[object] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(read(JsonFields(item, f"{name}[{at}]")) for at, item in enumerate(found))

    def inner(self, name: str, read: Callable[["JsonFields"], T]) -> T | None:
        """Return an object."""
        value = self._fields.get(name)
        return None if value is None else read(JsonFields(value, name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._fields.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self._mismatch(name, "a list of strings")
        found: list[object] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(self._item_text(name, item) for item in found)

    def text_map(self, name: str) -> dict[str, str]:
        """Return an object whose values are texts."""
        value = self._fields.get(name)
        if value is None:
            return {}
        inner = JsonFields(value, name)
        return {key: inner.text(key) or "" for key in inner._fields}

    def texts_map(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return an object whose values are lists of texts."""
        value = self._fields.get(name)
        if value is None:
            return {}
        inner = JsonFields(value, name)
        return {key: inner.texts(key) for key in inner._fields}

    def _item_text(self, name: str, item: object) -> str:
        if not isinstance(item, str):
            raise self._mismatch(name, "a list of strings")
        return item

    def _mismatch(self, name: str, expected: str) -> MalformedJsonError:
        return MalformedJsonError(f"{self._what}: {name} must be {expected}")


def read_json(body: bytes) -> Any:
    """Return the JSON value of a body.

    Raises MalformedJsonError when it is not JSON, not UTF-8, or nested too deeply.
    """
    try:
        value = json.loads(body)
        if b"\\u" in body:
            # A lone surrogate is a text that cannot be stored.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise MalformedJsonError("JSON is nested too deeply") from None
    except ValueError as error:
        raise MalformedJsonError(f"Invalid JSON: {json_fault(error)}") from None
    return value


_CONTROL_ESCAPE = re.compile(r"\\(?:\\|u00[01][0-9a-f])")


# json.dumps makes an encoder for each call that does not ask for its defaults.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def write_json(value: Any) -> str:
    """Return compact JSON, in the bytes that Jackson writes: hexadecimal digits in upper case."""
    text = _ENCODER.encode(value)
    if "\\u00" not in text:
        return text
    return _CONTROL_ESCAPE.sub(_upper_hex, text)


def _upper_hex(match: re.Match[str]) -> str:
    found = match[0]
    return found if found == "\\\\" else f"\\u{found[2:].upper()}"


def without_empty(pairs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pairs whose values are neither null nor empty, in their order."""
    return {
        key: value
        for key, value in pairs.items()
        if value is not None and (isinstance(value, bool | int) or len(value) > 0)
    }
