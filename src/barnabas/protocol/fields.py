"""What a declared field is: its type on the wire, its versions, and what it is when left out.

A declaration reads like Kafka's specification:

    class ExampleRequest(Message, api_key=99, versions="0-3", flexible="2+"):
        timeout_ms: int = int32(default=5000)
        group_id: str | None = string(versions="1+", nullable="3+", ignorable=True)
        topics: list[ExampleRequest.Topic] = array("Topic")

Every function below returns the declaration, typed as `Any` so that the annotation beside it is
what type checkers see. Its arguments, all optional:

    versions    of the message that have the field (all of them)
    nullable    True, or the versions in which the field may be None
    default     the value of a field left out (0, "", b"", no elements, a struct of defaults)
    tag         the number of a field that goes to the tagged section
    ignorable   whether a value other than the default may silently be dropped in versions without
                the field; encoding raises EncodingError otherwise
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

from barnabas.protocol.types import ZERO_UUID, Uuid

LAST_VERSION: Final = 0x7FFF
"""The end of an open range of versions."""

# What a records field holds: a memoryview when decoded; bytes-like, or a slice of a file that
# has a length, when it is to be encoded. Left to `Any`, as only the log looks inside.
Records = Any


class Versions(NamedTuple):
    """An inclusive range of versions; empty when `high` is below `low`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Read "3-13", "9+", "4" or "none"."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), LAST_VERSION)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def has(self, version: int) -> bool:
        """Whether `version` lies in the range."""
        return self.low <= version <= self.high


NO_VERSIONS: Final = Versions(0, -1)
ALL_VERSIONS: Final = Versions(0, LAST_VERSION)


class Kind(Enum):
    """A type on the wire, whatever its length prefix looks like in a version."""

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
"""The `struct` code of each kind that always takes the same number of bytes."""


class Field:
    """One declared field; `name` is set when its class is made."""

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
    """A big-endian float of eight bytes."""
    return Field(Kind.FLOAT64, default, **options)


def boolean(*, default: bool = False, **options: Any) -> Any:
    """One byte: zero is False, anything else True."""
    return Field(Kind.BOOLEAN, default, **options)


def uuid(*, default: Uuid = ZERO_UUID, **options: Any) -> Any:
    """Sixteen bytes, a `Uuid`."""
    return Field(Kind.UUID, default, **options)


def string(*, default: str | None = "", **options: Any) -> Any:
    """UTF-8 text; `flexible=False` keeps its two-byte length in flexible versions too."""
    return Field(Kind.STRING, default, **options)


def binary(*, default: bytes | None = b"", **options: Any) -> Any:
    """Bytes, decoded to a copy; `secret=True` keeps them out of `repr` and the inspector."""
    return Field(Kind.BYTES, default, **options)


def records(**options: Any) -> Any:
    """Record batches, decoded to a view of the buffer; None until set."""
    return Field(Kind.RECORDS, None, **options)


def array(of: str | Kind, *, default: tuple[()] | None = (), **options: Any) -> Any:
    """A list of a struct of the same message, given by name, or of values of a kind.

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
    """A struct of the same message, given by name; its default is the struct of all defaults.

    A nullable one is led by an int8 (-1 or 1), or with `varint_marker=True` by a varint (0 or 1).
    """
    field = Field(Kind.STRUCT, default, **options)
    field.struct = of
    return field
