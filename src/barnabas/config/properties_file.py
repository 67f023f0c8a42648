"""The format of `server.properties`: a reader of Java's Properties.

Lines `name=value` (also `:` or white space between), `#` and `!` comments, a backslash at the
end of a line continues it, escapes `\\t \\n \\r \\f \\uXXXX`; the last of several lines wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.schema import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


def read(path: Path) -> dict[str, str]:
    """Read a file in UTF-8, or in ISO 8859-1 when it is not UTF-8. Raises ConfigError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot read the configuration file {path}: {reason}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}") from None


def parse(text: str) -> dict[str, str]:
    """Read the text of a file into names and values, in the file's order."""
    return dict(_split(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    continued = False
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANK)
        if not continued and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        pending += line[:-1] if continued else line
        if not continued:
            yield pending
            pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    signs = iter(text)
    for sign in signs:
        if sign != "\\":
            out.append(sign)
            continue
        escaped = next(signs, "")
        if escaped == "u":
            digits = "".join(next(signs, "") for _ in range(4))
            try:
                out.append(chr(int(digits, 16)))
            except ValueError:
                raise ConfigError(f"\\u{digits} is not an escape: four hex digits follow") from None
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)
