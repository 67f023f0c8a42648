"""Frames as text for people, with or without colours, and as JSON for programs."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.inspect.frame_view import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.inspect.field_tree import Node
    from barnabas.inspect.frame_view import DecodedFrame

_PRINTABLE: Final = frozenset(string.printable) - frozenset("\x0b\x0c\r\n\t")
_STYLES: Final = {
    "place": "\x1b[2m",
    "name": "\x1b[36m",
    "type": "\x1b[2m",
    "number": "\x1b[33m",
    "text": "\x1b[32m",
    "null": "\x1b[2m",
    "hidden": "\x1b[35m",
    "note": "\x1b[34m",
    "request": "\x1b[1;32m",
    "response": "\x1b[1;34m",
    "problem": "\x1b[1;31m",
}
_RESET: Final = "\x1b[0m"


class Heading(NamedTuple):
    """The source of a frame: the time in seconds since 1970, and its connection."""

    time: float | None = None
    connection: str = ""


class Style(NamedTuple):
    """Options of text: colours, and the maximum length of a value in bytes or characters."""

    colours: bool = False
    length_max: int = 80

    def paint(self, what: str, text: str) -> str:
        """Return the text in the colour of its kind."""
        return f"{_STYLES[what]}{text}{_RESET}" if self.colours and text else text


def text_lines(decoded: DecodedFrame, heading: Heading, style: Style) -> Iterator[str]:
    """Render a frame: a line about it, then a line for each field with its position."""
    arrow = "request" if decoded.is_request else "response"
    words = [style.paint(arrow, f"{'>' if decoded.is_request else '<'} {decoded.name}")]
    if decoded.correlation_id >= 0:
        words.append(f"correlation {decoded.correlation_id}")
    if decoded.client_id:
        words.append(f"client {decoded.client_id}")
    words.append(f"{decoded.size} bytes")
    if heading.connection:
        words.append(heading.connection)
    if heading.time is not None:
        words.append(style.paint("place", clock(heading.time)))
    yield "  ".join(words)
    yield from field_lines(decoded.fields, style)
    if decoded.problem:
        yield style.paint("problem", f"  ! {decoded.problem}")


def field_lines(nodes: tuple[Node, ...], style: Style) -> Iterator[str]:
    """Render a line for each field: the positions of its bytes, its name, its value."""
    for depth, node in walk(nodes):
        place = style.paint("place", f"{node.start:>7}-{node.end:<7}")
        name = style.paint("name", node.name)
        value = _value_text(node, style)
        note = style.paint("note", f"({node.note})") if node.note else ""
        kind = style.paint("type", node.type)
        yield "  ".join(filter(None, (f"{place}{'  ' * depth}{name}", value, note, kind)))


def _value_text(node: Node, style: Style) -> str:
    if node.children is not None:
        return style.paint("null", "empty") if not node.children and not node.note else ""
    if node.hidden:
        return style.paint("hidden", str(node.value))
    value = node.value
    if value is None:
        return style.paint("null", "null")
    if isinstance(value, str):
        return style.paint("text", _shortened(_quoted(value), len(value), style, "characters"))
    if isinstance(value, bytes):
        return style.paint("text", _shortened(_bytes_text(value), len(value), style, "bytes"))
    return style.paint("number", str(value).lower() if isinstance(value, bool) else str(value))


def _quoted(value: str) -> str:
    """Return the text in quotes; escape control and invisible characters."""
    return '"' + "".join(c if c.isprintable() and c != '"' else _escaped(c) for c in value) + '"'


def _escaped(character: str) -> str:
    return '\\"' if character == '"' else character.encode("unicode_escape").decode()


def _bytes_text(value: bytes) -> str:
    text = value.decode("latin-1")
    if value and _PRINTABLE.issuperset(text):
        return f"b{_quoted(text)}"
    return f"0x{value.hex()}" if value else 'b""'


def _shortened(text: str, size: int, style: Style, unit: str) -> str:
    if style.length_max <= 0 or len(text) <= style.length_max:
        return text
    return f"{text[: style.length_max]}... ({size} {unit})"


def as_json(decoded: DecodedFrame, heading: Heading) -> dict[str, Any]:
    """Return a frame as a JSON object; a field has name, type, start, end, value or fields."""
    shown: dict[str, Any] = {}
    if heading.time is not None:
        shown["time"] = clock(heading.time)
    if heading.connection:
        shown["connection"] = heading.connection
    shown["direction"] = "request" if decoded.is_request else "response"
    if decoded.api is not None:
        shown |= {"api": decoded.api.name, "api_key": decoded.api.key, "version": decoded.version}
    shown["correlation_id"] = decoded.correlation_id
    if decoded.is_request:
        shown["client_id"] = decoded.client_id
    shown["size"] = decoded.size
    if decoded.problem:
        shown["problem"] = decoded.problem
    shown["fields"] = fields_json(decoded.fields)
    return shown


def fields_json(nodes: tuple[Node, ...]) -> list[dict[str, Any]]:
    """Render fields for JSON; printable bytes become text, others hex."""
    return [_field_json(node) for node in nodes]


def _field_json(node: Node) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": node.name,
        "type": node.type,
        "start": node.start,
        "end": node.end,
    }
    if node.note:
        shown["note"] = node.note
    if node.hidden:
        shown["hidden"] = node.value
    elif node.children is not None:
        shown["fields"] = fields_json(node.children)
    elif isinstance(node.value, bytes):
        text = node.value.decode("latin-1")
        if _PRINTABLE.issuperset(text):
            shown["value"] = text
        else:
            shown["hex"] = node.value.hex()
    else:
        shown["value"] = node.value
    return shown


def clock(seconds: float) -> str:
    """Return the time of a frame in UTC, with microseconds."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
