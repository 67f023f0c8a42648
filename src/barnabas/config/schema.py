"""The rows of the tables: a property's type, its validator, its text parsed and formatted.

Parsing follows Kafka's `ConfigDef.parseType`: text is trimmed, lists split at commas, numbers
bounded as Java's are. A bad value raises ConfigError with the
property, the value and the rule.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Value = bool | int | float | str | tuple[str, ...] | None


class ConfigError(Exception):
    """An invalid name or value of a property; the message says what to do."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.name = name


class ConfigRequestError(ConfigError):
    """An error that Kafka answers with INVALID_REQUEST where others are INVALID_CONFIG."""


class Type(enum.IntEnum):
    """Kafka's property types, with the numbers that DescribeConfigs sends."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(enum.Enum):
    """Kafka's importance of a property."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Dynamic(enum.Enum):
    """The scope in which AlterConfigs changes a broker property while the node runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Source(enum.IntEnum):
    """The source of an effective value, with the number that DescribeConfigs sends."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class _Required:
    """Marks a property without a default."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()


class Validator:
    """Validates a parsed value; its text is Kafka's description of the rule."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def refusal(self, value: Any) -> str | None:
        """Return the reason why `value` is invalid, or None."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text


class Range(Validator):
    """A number within bounds, both included."""

    __slots__ = ("high", "low")

    def __init__(self, low: float, high: float | None = None) -> None:
        super().__init__(f"[{low},...]" if high is None else f"[{low},...,{high}]")
        self.low = low
        self.high = high

    def refusal(self, value: float | None) -> str | None:
        """Refuse a value below `low` or above `high`."""
        if value is None:
            return "it must be set"
        if value < self.low:
            return f"it must be at least {self.low}"
        if self.high is not None and value > self.high:
            return f"it must be no more than {self.high}"
        return None


class OneOf(Validator):
    """One of a few strings."""

    __slots__ = ("choices", "ignore_case")

    def __init__(self, *choices: str, ignore_case: bool = False) -> None:
        shown = f"[{', '.join(choices)}]"
        super().__init__(f"(case insensitive) {shown}" if ignore_case else shown)
        self.choices = choices
        self.ignore_case = ignore_case

    def refusal(self, value: str | None) -> str | None:
        """Refuse what is not among the choices."""
        known = value.upper() in self.choices if self.ignore_case and value else False
        if known or value in self.choices:
            return None
        return f"it must be one of: {', '.join(self.choices)}"


class ListOf(Validator):
    """A list without empty members; with `choices`, its members are among these."""

    __slots__ = ("choices", "empty", "null")

    def __init__(self, *choices: str, empty: bool = False, null: bool = False) -> None:
        super().__init__(f"[{', '.join(choices)}]" if choices else "")
        self.choices = choices
        self.empty = empty
        self.null = null

    def refusal(self, value: tuple[str, ...] | None) -> str | None:
        """Refuse empty and unknown members."""
        if value is None:
            return None if self.null else "it must be set"
        if not value and not self.empty:
            return "it must not be empty"
        if "" in value:
            return "its members must not be empty"
        if self.choices and not set(value) <= set(self.choices):
            return f"its members must be among: {', '.join(self.choices)}"
        return None


class AddressCounts(Validator):
    """Pairs `address:count`, separated by commas; none is allowed."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("")

    def refusal(self, value: str | None) -> str | None:
        """Refuse a pair without an address or without a whole number that is not negative."""
        for pair in filter(str.strip, (value or "").split(",")):
            address, _, count = (part.strip() for part in pair.rpartition(":"))
            if not address or not (count.isascii() and count.isdecimal()):
                return f"{pair.strip()!r} is not an address:count pair"
        return None


class NonEmpty(Validator):
    """A string that is not empty; it may be missing."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("non-empty string")

    def refusal(self, value: str | None) -> str | None:
        """Refuse the empty text."""
        return "it must not be empty" if value == "" else None


class NonNull(Validator):
    """A string that is given; it may be empty."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("non-null string")

    def refusal(self, value: str | None) -> str | None:
        """Refuse a missing value."""
        return "it must be set" if value is None else None


class Check(Validator):
    """A rule in code: `rule` returns the reason why a value is invalid, or None."""

    __slots__ = ("rule",)

    def __init__(self, text: str, rule: Callable[[Any], str | None]) -> None:
        super().__init__(text)
        self.rule = rule

    def refusal(self, value: Any) -> str | None:
        """Return what the rule returns."""
        return self.rule(value)


class Property:
    """One property: the row of a table.

    `synonyms` are the broker properties that stand in for a topic's or group's property, the
    strongest first, each with the factor that converts its unit.

    Without `has_effect` a property is accepted, kept and described to clients, and changes nothing.
    `unsupported` is given for a property that promises protection or storage which does not exist
    here: the reason why the node does not start when the property is set. `is_checked` marks a
    property that is validated at start-up and otherwise has no effect on a cluster of one node.
    `needs_restart` marks a property that is dynamic in Kafka and is applied only at start-up here:
    AlterConfigs refuses to change it.
    """

    __slots__ = (
        "default",
        "doc",
        "dynamic",
        "has_effect",
        "importance",
        "internal",
        "is_checked",
        "name",
        "needs_restart",
        "synonyms",
        "type",
        "unsupported",
        "validator",
    )

    def __init__(
        self,
        name: str,
        type_: Type,
        default: Value,
        importance: Importance,
        doc: str,
        *,
        validator: Validator | None = None,
        dynamic: Dynamic = Dynamic.READ_ONLY,
        synonyms: tuple[tuple[str, int], ...] = (),
        has_effect: bool = False,
        unsupported: str = "",
        is_checked: bool = False,
        needs_restart: bool = False,
        internal: bool = False,
    ) -> None:
        self.name = name
        self.type = type_
        self.default = default
        self.importance = importance
        self.doc = doc
        self.validator = validator
        self.dynamic = dynamic
        self.synonyms = synonyms
        self.has_effect = has_effect
        self.unsupported = unsupported
        self.is_checked = is_checked
        self.needs_restart = needs_restart
        self.internal = internal

    def __repr__(self) -> str:
        return f"Property({self.name!r})"

    @property
    def sensitive(self) -> bool:
        """True when the value is a secret, which is never shown."""
        return self.type is Type.PASSWORD

    @property
    def required(self) -> bool:
        """True when the property has no default."""
        return self.default is REQUIRED

    @property
    def default_text(self) -> str | None:
        """The default as Kafka formats it in an answer; None without a default."""
        return None if self.required else to_text(self.default)

    def parse(self, text: str) -> Any:
        """Parse and validate text. Raises ConfigError."""
        value = self.read(text)
        self.check(value, text)
        return value

    def read(self, text: str) -> Any:
        """Parse text without the validator. Raises ConfigError."""
        try:
            return PARSERS[self.type](text)
        except ValueError as error:
            raise self.error(text, f"it must be {error}") from None

    def check(self, value: Any, text: str | None = None) -> None:
        """Raise ConfigError when `value` is invalid."""
        refusal = self.validator.refusal(value) if self.validator else None
        if refusal is not None:
            raise self.error(to_text(value) if text is None else text, refusal)

    def error(self, text: str | None, refusal: str) -> ConfigError:
        """Return the error for `text`; a secret is not part of it."""
        shown = "[hidden]" if self.sensitive else text
        return ConfigError(
            f"Invalid value {shown} for configuration {self.name}: {refusal}", name=self.name
        )


def boolean_of(name: str, text: str) -> bool:
    """Return the value of a property that is true or false. Raises ConfigError."""
    try:
        return _boolean(text)
    except ValueError as error:
        raise ConfigError(
            f"Invalid value {text} for {name}: it must be {error}", name=name
        ) from None


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("true or false")
    return lowered == "true"


def _integer(bits: int) -> Callable[[str], int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        trimmed = text.strip()
        digits = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
        # A number of the type has at most 19 digits; int() of a long text takes quadratic time.
        if digits.isdecimal() and len(digits.lstrip("0")) < 20:
            value = int(trimmed)
            if low <= value <= high:
                return value
        raise ValueError(f"an integer from {low} to {high}")

    return parse


def _double(text: str) -> float:
    """Read what Java's `Double.parseDouble` reads: also a suffix, hex, NaN and Infinity."""
    trimmed = text.strip()
    bare = trimmed.lstrip("+-")
    if bare in ("NaN", "Infinity"):
        return float(trimmed)
    if bare[:1] and bare[0] in "0123456789." and "_" not in bare:
        try:
            if bare[:2] in ("0x", "0X"):
                return float.fromhex(trimmed.rstrip("fFdD") if "p" in bare.lower() else "")
            return float(trimmed[:-1] if trimmed[-1] in "fFdD" else trimmed)
        except (ValueError, OverflowError):
            pass
    raise ValueError("a number")


def _list(text: str) -> tuple[str, ...]:
    """Split at commas; a repeated member counts once."""
    trimmed = text.strip()
    return tuple(dict.fromkeys(part.strip() for part in trimmed.split(","))) if trimmed else ()


PARSERS: Mapping[Type, Callable[[str], Any]] = {
    Type.BOOLEAN: _boolean,
    Type.STRING: str.strip,
    Type.INT: _integer(32),
    Type.SHORT: _integer(16),
    Type.LONG: _integer(64),
    Type.DOUBLE: _double,
    Type.LIST: _list,
    Type.CLASS: str.strip,
    Type.PASSWORD: str.strip,
}


def to_text(value: Any) -> str | None:
    """Write a value as Kafka's answers do (`ConfigDef.convertToString`)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, tuple):
        return ",".join(value)  # pyright: ignore[reportUnknownArgumentType]
    return str(value)


def _java_double(value: float) -> str:
    """Write a double as Java's `Double.toString`: 0.5, 1.0E10, 1.0E-4."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    mantissa = "".join(map(str, digits))
    power = int(exponent) + len(mantissa) - 1
    return f"{'-' * sign}{mantissa[0]}.{mantissa[1:] or '0'}E{power}"
