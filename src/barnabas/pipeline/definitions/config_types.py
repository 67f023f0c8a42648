"""The types of configuration values: from text to a value and back.

The forms accepted, the messages and the texts are those of Apache Kafka's `ConfigDef`.
"""

import re
from enum import Enum
from typing import Final

import attrs

_COMMA: Final = re.compile(r"\s*,\s*")
_BLANKS: Final = "".join(map(chr, range(33)))
"""The characters that Java's trim removes: blanks and control characters."""
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_HIDDEN: Final = "[hidden]"


class ConfigType(Enum):
    """The type of a property."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    """The name or alias of a plug-in's class."""
    PASSWORD = "PASSWORD"


@attrs.frozen
class Password:
    """A secret: its text is shown by `value` only."""

    value: str = attrs.field(repr=False)

    def __str__(self) -> str:
        return _HIDDEN


ParsedValue = bool | int | float | str | list[str] | Password | None
"""A configuration value of any type."""


class ConfigValueError(Exception):
    """A configuration that cannot be accepted; the message is for the person who wrote it."""

    @classmethod
    def of(cls, name: str, value: object, reason: str | None = None) -> "ConfigValueError":
        """Return the error about one property's value."""
        because = f": {reason}" if reason is not None else ""
        return cls(f"Invalid value {java_text(value)} for configuration {name}{because}")


def java_text(value: object) -> str:
    """Return a value as Java's messages show it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        items: list[object] = value  # pyright: ignore[reportUnknownVariableType]
        return f"[{', '.join(map(java_text, items))}]"
    return str(value)


def value_text(value: ParsedValue) -> str | None:
    """Return a value as the text that would give it; a password is masked."""
    if value is None:
        return None
    return ",".join(value) if isinstance(value, list) else java_text(value)


_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def parse_value(name: str, text: str | None, kind: ConfigType) -> ParsedValue:
    """Return the value that a text stands for. Raises ConfigValueError."""
    if text is None:
        return None
    trimmed = text.strip(_BLANKS)
    match kind:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise ConfigValueError.of(name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ConfigType.PASSWORD:
            return Password(trimmed)
        case ConfigType.STRING | ConfigType.CLASS:
            return trimmed
        case ConfigType.LIST:
            return _COMMA.split(trimmed) if trimmed else []
        case ConfigType.DOUBLE:
            return _double(name, text)
        case _:
            return _integer(name, text, kind)


def _double(name: str, text: str) -> float:
    try:
        return float(text.replace("_", "?"))
    except ValueError:
        raise ConfigValueError.of(name, text, "Not a number of type DOUBLE") from None


def _integer(name: str, text: str, kind: ConfigType) -> int:
    limit, trimmed = 1 << (_BITS[kind] - 1), text.strip(_BLANKS)
    if _WHOLE_NUMBER.fullmatch(trimmed) and -limit <= int(trimmed) < limit:
        return int(trimmed)
    raise ConfigValueError.of(name, text, f"Not a number of type {kind.value}")
