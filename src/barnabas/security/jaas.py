"""JAAS lines: the login module and its options in a property `sasl.jaas.config`.

The syntax is that of Kafka's `JaasConfig`, which reads with Java's `StreamTokenizer`: words,
strings in single or double quotes with Java's escapes, comments. A number is not a value.
"""

from collections.abc import Mapping
from typing import Final

import attrs

_CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_DIGITS: Final = frozenset("0123456789")
_OCTAL: Final = frozenset("01234567")
_NUMBER: Final = _DIGITS | {"-", "."}
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(Exception):
    """The text of a JAAS line is invalid."""


@attrs.frozen
class LoginModule:
    """A login module: the name of its class, its control flag, its options."""

    name: str
    control_flag: str
    options: Mapping[str, str] = attrs.field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Return the one login module of a JAAS line.

    Raises JaasError when the syntax is wrong, or when there is not exactly one module. The error
    shows no value of an option.
    """
    modules = parse_login_modules(text)
    if len(modules) != 1:
        raise JaasError(
            f"JAAS config property contains {len(modules)} login modules, should be 1 module"
        )
    return modules[0]


def parse_login_modules(text: str) -> list[LoginModule]:
    """Return all login modules of a text. Raises JaasError."""
    tokens = _Tokenizer(text)
    modules: list[LoginModule] = []
    while not tokens.next().is_end:
        modules.append(_login_module(tokens))
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    return modules


def _login_module(tokens: "_Tokenizer") -> LoginModule:
    name = tokens.current.word
    if tokens.next().is_end:
        raise JaasError("Login module control flag not specified in JAAS config")
    flag = tokens.current.word
    if flag is None:
        raise JaasError("Login module control flag is not available in the JAAS config")
    if flag.lower() not in _CONTROL_FLAGS:
        raise JaasError(f"Invalid login module control flag '{flag}' in JAAS config")
    options: dict[str, str] = {}
    while not tokens.next().is_end and not tokens.current.is_sign(";"):
        key = tokens.current.word
        value = tokens.next().is_sign("=") and not tokens.next().is_end and tokens.current.word
        if not isinstance(value, str) or key is None:
            name_of_key = "null" if key is None else key
            raise JaasError(f"Value not specified for key '{name_of_key}' in JAAS config")
        options[key] = value
    if tokens.current.is_end:
        raise JaasError("JAAS config entry not terminated by semi-colon")
    if name is None:
        raise JaasError("Login module not specified in JAAS config")
    return LoginModule(name, flag.lower(), options)


@attrs.frozen(slots=True)
class _Token:
    """A word or string (`word`), a single character (`sign`), a number, or the end (neither)."""

    word: str | None = None
    sign: str = ""
    is_end: bool = False

    def is_sign(self, sign: str) -> bool:
        return self.word is None and self.sign == sign


class _Tokenizer:
    """Java's StreamTokenizer as `JaasConfig` configures it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self.current = _Token()

    def next(self) -> _Token:
        """Advance to the next token and return it."""
        self.current = self._read()
        return self.current

    def _peek(self, ahead: int = 0) -> str:
        """Return a character that follows; empty at the end."""
        return self._text[self._position + ahead : self._position + ahead + 1]

    def _read(self) -> _Token:
        while True:
            sign = self._peek()
            if not sign:
                return _Token(is_end=True)
            if sign <= " ":
                self._position += 1
            elif sign == "/":
                self._skip_comment()
            else:
                break
        if sign in _NUMBER:
            return self._number()
        if _is_word(sign):
            return self._word()
        self._position += 1
        if sign in "\"'":
            return self._string(sign)
        return _Token(sign=sign)

    def _skip_comment(self) -> None:
        """Skip a comment.

        As in Java, a single slash begins one too, and its next character may be the line's end.
        """
        if self._peek(1) == "*":
            end = self._text.find("*/", self._position + 2)
            self._position = len(self._text) if end < 0 else end + 2
            return
        self._position += 1 if self._peek(1) == "/" else 2
        while self._peek() not in ("", "\n", "\r"):
            self._position += 1

    def _number(self) -> _Token:
        sign = self._peek()
        if sign == "-" and self._peek(1) not in _DIGITS | {"."}:
            self._position += 1
            return _Token(sign="-")
        self._position += sign == "-"
        has_point = False
        while self._peek() in _DIGITS or (self._peek() == "." and not has_point):
            has_point = has_point or self._peek() == "."
            self._position += 1
        return _Token(sign="number")

    def _word(self) -> _Token:
        start = self._position
        while (sign := self._peek()) and (_is_word(sign) or sign in _NUMBER):
            self._position += 1
        return _Token(self._text[start : self._position])

    def _string(self, quote: str) -> _Token:
        """Return a string; it ends at its quote, at the end of the line or of the text."""
        found: list[str] = []
        while (sign := self._peek()) not in ("", quote, "\n", "\r"):
            self._position += 1
            found.append(self._escape() if sign == "\\" else sign)
        self._position += sign == quote
        return _Token("".join(found))

    def _escape(self) -> str:
        first = self._peek()
        self._position += 1
        if first not in _OCTAL or not first:
            return _ESCAPES.get(first, first)
        digits = first
        while len(digits) < (3 if first <= "3" else 2) and self._peek() in _OCTAL:
            digits += self._peek()
            self._position += 1
        return chr(int(digits, 8))


def _is_word(sign: str) -> bool:
    """True for the characters of words: letters, `-`, `_`, `$`, and those of other alphabets."""
    return (sign.isascii() and sign.isalpha()) or sign in "-_$" or sign >= "\xa0"
