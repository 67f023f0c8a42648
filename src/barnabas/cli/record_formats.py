"""Records as text, read by `produce` and written by `consume`.

`value` is one value per line; `key-value` a key, a separator and a value; `json` one object per
line with all parts of a record: `produce` reads what `consume` writes. Text is UTF-8. A key or
value in other bytes is `key_base64` or `value_base64` in a JSON object, a header's value
`{"base64": "..."}`.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from barnabas.cli.command_errors import CliError
from barnabas.cli.parameter_types import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

Header = tuple[str, bytes | None]

_NAMES = (
    *("key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp"),
    *("topic", "offset"),
)
"""The names that an object of a record may have; `consume` writes the last two as well."""

_PAIRS = 'headers must be pairs such as [["name", "value"]]'

FORMATS = ("value", "key-value", "json", "raw")


class Entry(NamedTuple):
    """A record; its timestamp is in ms since 1970, None when it is not given."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp: int | None = None
    topic: str | None = None
    offset: int | None = None


def reader(
    form: str, separator: str, null: str | None, key: bytes | None
) -> Callable[[bytes], Entry]:
    """Return a function that parses one line; a key in the line wins over `key`."""
    mark = separator.encode()
    nothing = null.encode() if null is not None else None

    def value(line: bytes) -> Entry:
        return Entry(key, None if line == nothing else line)

    def key_value(line: bytes) -> Entry:
        found, mid, rest = line.partition(mark)
        if not mid:
            raise ValueError(f"there is no separator {separator!r} in it (--key-separator)")
        return Entry(None if found == nothing else found, None if rest == nothing else rest)

    def from_json(line: bytes) -> Entry:
        return parse_json(line, key)

    return {"value": value, "raw": value, "key-value": key_value, "json": from_json}[form]


def parse_json(line: bytes, key: bytes | None = None) -> Entry:
    """Parse one JSON object. Raises ValueError with the problem."""
    try:
        return _parsed(line, key)
    except RecursionError as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _parsed(line: bytes, key: bytes | None) -> Entry:
    try:
        found: Any = json.loads(line, parse_float=_Number, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"it is not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if type(found) is not dict:
        raise ValueError('it must be a JSON object such as {"key": "k", "value": "v"}')
    record = cast("dict[str, Any]", found)
    unknown = [name for name in record if name not in _NAMES]
    if unknown:
        raise ValueError(
            f"a record has no {unknown[0]!r}; its names are {', '.join(_NAMES)}; "
            "give a value that is an object under the name value"
        )
    partition = _integer(record, "partition", 0, INT32_MAX)
    timestamp = _integer(record, "timestamp", -INT64_MAX, INT64_MAX)
    known = _blob(record, "key")
    return Entry(
        known if known is not None else key,
        _blob(record, "value"),
        tuple(_headers(record.get("headers"))),
        partition,
        timestamp,
    )


class _Number(str):
    """A number with a fraction or an exponent, as it was written: a float would round it."""

    __slots__ = ()

    __repr__ = str.__str__


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"it is not JSON: {name} is not a number of JSON; give null, or a string")


def _integer(record: dict[str, Any], name: str, low: int, high: int) -> int | None:
    number = record.get(name)
    if number is None:
        return None
    if type(number) is not int:
        raise ValueError(f"{name} must be an integer, not {number!r}")
    if not low <= number <= high:
        raise ValueError(f"{name} must be from {low} to {high}, not {number}")
    return number


def _blob(record: dict[str, Any], name: str) -> bytes | None:
    encoded = record.get(f"{name}_base64")
    if encoded is not None:
        return _decoded(encoded)
    found = record.get(name)
    return None if found is None else _as_bytes(found)


def _as_bytes(found: Any) -> bytes:
    """Return a string as it is, any other JSON value as JSON."""
    return (found if type(found) is str else _compact(found)).encode()


def _compact(found: Any) -> str:
    """Return a JSON value as text without spaces."""
    if isinstance(found, _Number):
        return str(found)
    if type(found) is dict:
        pairs = cast("dict[str, Any]", found).items()
        return "{" + ",".join([f"{_compact(name)}:{_compact(each)}" for name, each in pairs]) + "}"
    if type(found) is list:
        return "[" + ",".join([_compact(each) for each in cast("list[Any]", found)]) + "]"
    return json.dumps(found, ensure_ascii=False)


def _decoded(encoded: Any) -> bytes:
    try:
        if type(encoded) is not str:
            raise TypeError
        return base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError):
        raise ValueError(f"{encoded!r} is not base64") from None


def _headers(found: Any) -> list[Header]:
    if found is None:
        return []
    if type(found) is dict:
        found = list(cast("dict[str, Any]", found).items())
    if type(found) is not list:
        raise ValueError(_PAIRS)
    return [_header(pair) for pair in cast("list[Any]", found)]


def _header(pair: Any) -> Header:
    if type(pair) not in (list, tuple) or len(pair) != 2 or type(pair[0]) is not str:
        raise ValueError(_PAIRS)
    name, content = pair
    if type(content) is dict and list(content) == ["base64"]:  # pyright: ignore[reportUnknownArgumentType]
        return name, _decoded(content["base64"])
    return name, None if content is None else _as_bytes(content)


def writer(
    form: str, separator: str, null: str | None, template: str | None
) -> Callable[[Entry], bytes]:
    """Return a function that formats a record, with its line end."""
    mark = separator.encode()
    nothing = null.encode() if null is not None else b""

    def value(entry: Entry) -> bytes:
        return (nothing if entry.value is None else entry.value) + b"\n"

    def raw(entry: Entry) -> bytes:
        return entry.value or b""

    def key_value(entry: Entry) -> bytes:
        found = nothing if entry.key is None else entry.key
        return found + mark + value(entry)

    def from_template(entry: Entry) -> bytes:
        return _filled(template or "", entry, nothing) + b"\n"

    if template is not None:
        return from_template
    return {"value": value, "raw": raw, "key-value": key_value, "json": json_line}[form]


def json_line(entry: Entry) -> bytes:
    """Return a record as one JSON object."""
    record: dict[str, Any] = {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp": entry.timestamp,
    }
    for name, content in (("key", entry.key), ("value", entry.value)):
        try:
            record[name] = None if content is None else content.decode()
        except UnicodeDecodeError:
            record[f"{name}_base64"] = base64.b64encode(content or b"").decode()
    if entry.headers:
        record["headers"] = [[name, _header_text(content)] for name, content in entry.headers]
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _header_text(content: bytes | None) -> Any:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content or b"").decode()}


FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def check_template(template: str) -> str:
    """Return a template with escapes replaced. Raises CliError when a field is unknown."""
    from string import Formatter

    try:
        names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise CliError(f"Invalid value {template!r} for --template: {error}") from None
    for name in names:
        if name not in FIELDS:
            raise CliError(
                f"Invalid value {template!r} for --template: unknown field {{{name}}}; "
                f"the fields are {', '.join(FIELDS)}"
            )
    try:
        _filled(template, Entry(b"", b"", (), 0, 0, "", 0), b"")
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise CliError(
            f"Invalid value {template!r} for --template: {error}; "
            "key, value, headers and topic are text, partition, offset and timestamp integers"
        ) from None
    return template.replace("\\t", "\t").replace("\\n", "\n")


def _filled(template: str, entry: Entry, nothing: bytes) -> bytes:
    """Return a filled template; bytes that are not UTF-8 are unchanged."""

    def text(content: bytes | None) -> str:
        return (nothing if content is None else content).decode("utf-8", "surrogateescape")

    headers = ",".join(f"{name}={text(content)}" for name, content in entry.headers)
    filled = template.format(
        topic=entry.topic,
        partition=entry.partition,
        offset=entry.offset,
        timestamp=entry.timestamp,
        key=text(entry.key),
        value=text(entry.value),
        headers=headers,
    )
    return filled.encode("utf-8", "surrogateescape")
