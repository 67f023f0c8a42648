"""Split Protobuf text into tokens, with their places."""

import re
from collections.abc import Iterator

import attrs

from barnabas.registry.formats.schema_format import SchemaError

_TOKEN = re.compile(
    r"""
      (?P<space> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<string> "(?:[^"\\\n]|\\[^\n])*+" | '(?:[^'\\\n]|\\[^\n])*+' )
    | (?P<number> [+-]?(?:0[xX][0-9a-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) )
    | (?P<word> -?[A-Za-z_]\w* )
    | (?P<symbol> [{}()\[\]<>=;:,./-] )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)

_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)


@attrs.frozen
class Token:
    """One token of the kind ``string`` (unquoted), ``number``, ``word``, ``symbol`` or ``end``."""

    kind: str
    text: str
    position: int


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text, and one of the kind ``end``.

    Raises SchemaError for a character that begins no token.
    """
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SchemaError(
                f"unexpected {text[position : position + 10]!r}", place(text, position)
            )
        kind = match.lastgroup or ""
        if kind == "string":
            yield Token(kind, _ESCAPE.sub(_unescaped, match[kind][1:-1]), position)
        elif kind != "space":
            yield Token(kind, match[kind], position)
        position = match.end()
    yield Token("end", "", position)


def place(text: str, position: int) -> str:
    """Return the line and column of a position."""
    line = text.count("\n", 0, position) + 1
    return f"{line}:{position - text.rfind(chr(10), 0, position)}"


def _unescaped(match: re.Match[str]) -> str:
    octal, byte, unit, char = match.groups()
    if octal:
        return chr(int(octal, 8))
    if byte or unit:
        return chr(int(byte or unit, 16))
    return _ESCAPES.get(char, char)
