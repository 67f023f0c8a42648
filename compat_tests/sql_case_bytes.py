"""Keys and values of cases as bytes, by the formats of sources, and bytes as keys and values."""

from __future__ import annotations

import base64
import json
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.catalog.source_values import Format, Source, SourceColumn

_PACKED = {"INTEGER": ">i", "BIGINT": ">q", "DOUBLE": ">d"}
_TOLERANCE = 0.000_001


def _json(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{json.dumps(name)}: {_json(each)}" for name, each in fields) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, cast("list[Any]", value))) + "]"
    return json.dumps(value)


def encoded(value: Any, form: Format, columns: Sequence[SourceColumn]) -> bytes | None:
    """Return a key or a value of a case as bytes of a format."""
    if value is None:
        return None
    if form.name == "JSON":
        return _json(value).encode()
    if form.name == "KAFKA" and columns:
        return _packed(value, columns[0].type.name)
    return str(value).encode()


def _packed(value: Any, kind: str) -> bytes:
    if kind in _PACKED:
        number = float(value) if kind == "DOUBLE" else int(value)
        return struct.pack(_PACKED[kind], number)
    return str(value).encode()


def decoded(data: bytes | None, form: Format, columns: Sequence[SourceColumn]) -> Any:
    """Return the key or the value of a case that bytes of a format have."""
    if data is None:
        return None
    if form.name == "JSON":
        return json.loads(data, parse_float=Decimal)
    if form.name == "KAFKA" and columns and columns[0].type.name in _PACKED:
        found = struct.unpack(_PACKED[columns[0].type.name], data)[0]
        return Decimal(str(found)) if isinstance(found, float) else found
    return data.decode()


def window_of(data: bytes | None, source: Source) -> tuple[bytes | None, int, int | None]:
    """Return the bytes of a key without its window, and the start and the end of the window."""
    assert data is not None
    assert source.window is not None
    if source.window.kind == "SESSION":
        end, start = struct.unpack(">qq", data[-16:])
        return data[:-16] or None, start, end
    (start,) = struct.unpack(">q", data[-8:])
    return data[:-8] or None, start, start + (source.window.size_ms or 0)


def window_bytes(window: dict[str, Any], source: Source) -> bytes:
    """Return the bytes of a window behind a key."""
    if source.window is not None and source.window.kind == "SESSION":
        return struct.pack(">qq", window["end"], window["start"])
    return struct.pack(">q", window["start"])


def same(actual: Any, expected: Any) -> bool:
    """True when a key or a value is the one that a case expects, by ksqlDB's comparison."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _same_fields(cast("dict[str, Any]", actual), cast("dict[str, Any]", expected))
    if isinstance(expected, list) and isinstance(actual, list):
        return _same_elements(cast("list[Any]", actual), cast("list[Any]", expected))
    if isinstance(expected, bool) or isinstance(actual, bool):
        return actual is expected
    if isinstance(expected, int | float | Decimal) and isinstance(actual, int | float | Decimal):
        return abs(float(actual) - float(expected)) < _TOLERANCE * max(1.0, abs(float(expected)))
    if isinstance(expected, str) and isinstance(actual, bytes):
        return base64.b64encode(actual).decode() == expected
    if isinstance(expected, str) and isinstance(actual, Decimal):
        return str(actual) == expected  # as Avro's and Protobuf's values are in the cases
    if isinstance(expected, int | Decimal) and isinstance(actual, str):
        return actual == str(expected)
    return actual == expected


def _same_fields(actual: dict[str, Any], expected: dict[str, Any]) -> bool:
    return len(actual) == len(expected) and all(
        same(actual.get(name, actual.get(name.upper())), each) for name, each in expected.items()
    )


def _same_elements(actual: list[Any], expected: list[Any]) -> bool:
    return len(actual) == len(expected) and all(map(same, actual, expected))
