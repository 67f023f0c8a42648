"""Declared fields: wire type, versions, nullability, tag and default.

A declaration reads like Kafka's specification:

    class ExampleRequest(Message, api="Example"):
        timeout_ms: int = int32(default=5000)
        group_id: str | None = string(versions="1+", nullable="3+", ignorable=True)
        topics: list[ExampleRequest.Topic] = array("Topic")

Every function below returns the declaration, typed as `Any`, so that type checkers see the
annotation beside it. The arguments are optional:

    versions    the versions of the message that have the field; all by default
    nullable    True, or the versions in which the field may be None
    default     the value of an omitted field: 0, "", b"", an empty list, a struct of defaults
    tag         the number of a field in the tagged section
    ignorable   True when a value other than the default is dropped silently in versions without
                the field; otherwise encoding raises EncodingError
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

from barnabas.protocol.types import ZERO_UUID, Uuid

LAST_VERSION: Final = 0x7FFF
"""The upper bound of an open range of versions."""

# The value of a records field: a memoryview when decoded; bytes-like, or a file slice with a
# length, when encoded. It is typed as Any because only the log reads it.
Records = Any


class Versions(NamedTuple):
    """An inclusive range of versions; empty when `high` is below `low`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Parse "3-13", "9+", "4" or "none"."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), LAST_VERSION)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def has(self, version: int) -> bool:
        """True when `version` is in the range."""
        return self.low <= version <= self.high


NO_VERSIONS: Final = Versions(0, -1)
ALL_VERSIONS: Final = Versions(0, LAST_VERSION)


class Kind(Enum):
    """A type on the wire, independent of the length encoding of a version."""

    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BOOLEAN = "bool"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"
    ARRAY = "array"
    STRUCT = "struct"


FIXED_CODES: Final = {
    Kind.INT8: "b",
    Kind.INT16: "h",
    Kind.UINT16: "H",
    Kind.INT32: "i",
    Kind.UINT32: "I",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
    Kind.BOOLEAN: "?",
    Kind.UUID: "16s",
}
"""The `struct` code of each fixed-width kind."""


class Field:
    """One declared field; `name` is set when the class is created."""

    __slots__ = (
        "default",
        "element",
        "flexible",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "secret",
        "struct",
        "tag",
        "varint_marker",
        "versions",
    )

    def __init__(
        self,
        kind: Kind,
        default: Any,
        *,
        versions: str = "0+",
        nullable: str | bool = False,
        tag: int | None = None,
        ignorable: bool = False,
        flexible: bool = True,
        secret: bool = False,
        varint_marker: bool = False,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.default = default
        self.versions = Versions.parse(versions)
        self.tag = tag
        self.ignorable = ignorable
        self.flexible = flexible
        self.secret = secret
        self.varint_marker = varint_marker
        self.element: Kind | None = None
        self.struct = ""
        if isinstance(nullable, str):
            self.nullable = Versions.parse(nullable)
        else:
            self.nullable = ALL_VERSIONS if nullable else NO_VERSIONS


def _number(kind: Kind) -> Callable[..., Any]:
    def declare(*, default: int = 0, **options: Any) -> Any:
        return Field(kind, default, **options)

    declare.__name__ = declare.__qualname__ = kind.value
    declare.__doc__ = f"A big-endian {kind.value}."
    return declare


int8 = _number(Kind.INT8)
int16 = _number(Kind.INT16)
uint16 = _number(Kind.UINT16)
int32 = _number(Kind.INT32)
uint32 = _number(Kind.UINT32)
int64 = _number(Kind.INT64)


def float64(*, default: float = 0.0, **options: Any) -> Any:
    """An eight-byte big-endian float."""
    return Field(Kind.FLOAT64, default, **options)


def boolean(*, default: bool = False, **options: Any) -> Any:
    """One byte: zero is False, anything else True."""
    return Field(Kind.BOOLEAN, default, **options)


def uuid(*, default: Uuid = ZERO_UUID, **options: Any) -> Any:
    """Sixteen bytes, a `Uuid`."""
    return Field(Kind.UUID, default, **options)


def string(*, default: str | None = "", **options: Any) -> Any:
    """UTF-8 text; `flexible=False` keeps the two-byte length in flexible versions."""
    return Field(Kind.STRING, default, **options)


def binary(*, default: bytes | None = b"", **options: Any) -> Any:
    """Bytes, decoded to a copy; `secret=True` hides them from `repr` and the inspector."""
    return Field(Kind.BYTES, default, **options)


def records(**options: Any) -> Any:
    """Record batches, decoded to a view of the buffer; the default is None."""
    return Field(Kind.RECORDS, None, **options)


def array(of: str | Kind, *, default: tuple[()] | None = (), **options: Any) -> Any:
    """A list of structs of the same message, given by name, or of values of a kind.

    The default is an empty list; `default=None` makes it None.
    """
    field = Field(Kind.ARRAY, default, **options)
    if isinstance(of, Kind):
        field.element = of
    else:
        field.element = Kind.STRUCT
        field.struct = of
    return field


def struct(of: str, *, default: tuple[()] | None = (), **options: Any) -> Any:
    """A struct of the same message, given by name; by default, all its fields have their defaults.

    A nullable struct starts with an int8 (-1 or 1), or with `varint_marker=True` with a varint (0
    or 1).
    """
    field = Field(Kind.STRUCT, default, **options)
    field.struct = of
    return field
