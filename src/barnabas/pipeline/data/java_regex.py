"""Java's regular expressions and replacements, on Python's `re`.

The syntax of both is nearly the same; what differs is translated. What `re` lacks (intersections
and unions of classes, `\\G`, `\\X`) is refused when the expression is compiled.

The package `regex` would not make this shorter: it has named groups, `\\h`, `\\R`, intersections,
but lacks `\\Q..\\E`, `\\e`, `\\k<name>` and Java's `\\Z`, and its `\\p{Punct}` does not match `$`.
"""

import re
from typing import Final

from barnabas.pipeline.data.connect_errors import IllegalGroupError, NoSuchGroupError


class JavaRegexError(ValueError):
    """A regular expression is not valid, or not supported."""


_CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "Graph": "\\x21-\\x7e",
    "Print": "\\x20-\\x7e",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}
_ESCAPES: Final = {
    "z": "\\Z",
    "Z": "(?=\\r?\\n?\\Z)",
    "e": "\\x1b",
    "h": "[ \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000]",
    "R": "(?:\\r\\n|[\\n\\x0b\\f\\r\\x85\\u2028\\u2029])",
}
_REFUSED: Final = frozenset("GXCEijklmopqyABFHILMNTKJOPVY") - frozenset("AB")
_NAMED_GROUP: Final = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_PROPERTY: Final = re.compile(r"\\([pP])\{(?:Is)?([A-Za-z]+)\}")
_BACK_REFERENCE: Final = re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>")


def compile_java_regex(pattern: str) -> re.Pattern[str]:
    """Return a Java regular expression compiled. Raises JavaRegexError."""
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise JavaRegexError(str(error)) from None


def _translated(pattern: str) -> str:
    parts: list[str] = []
    at = 0
    is_in_class = False
    while at < len(pattern):
        if pattern[at] == "\\":
            part, at = _escape(pattern, at, is_in_class=is_in_class)
            parts.append(part)
            continue
        if is_in_class:
            if pattern[at] == "[" or pattern.startswith("&&", at):
                raise JavaRegexError("unions and intersections of classes are not supported")
            is_in_class = pattern[at] != "]"
        elif pattern[at] == "[":
            is_in_class = True
        elif (named := _NAMED_GROUP.match(pattern, at)) is not None:
            parts.append(f"(?P<{named[1]}>")
            at = named.end()
            continue
        parts.append(pattern[at])
        at += 1
    return "".join(parts)


def _escape(pattern: str, at: int, *, is_in_class: bool) -> tuple[str, int]:
    """Return the translation of an escape and the place after it."""
    if (found := _PROPERTY.match(pattern, at)) is not None:
        return _property(found, is_in_class=is_in_class), found.end()
    if (found := _BACK_REFERENCE.match(pattern, at)) is not None:
        return f"(?P={found[1]})", found.end()
    letter = pattern[at + 1 : at + 2]
    if letter == "Q":
        end = pattern.find("\\E", at + 2)
        literal = pattern[at + 2 :] if end < 0 else pattern[at + 2 : end]
        return re.escape(literal), len(pattern) if end < 0 else end + 2
    if letter in _ESCAPES and not is_in_class:
        return _ESCAPES[letter], at + 2
    if letter and letter in _REFUSED:
        raise JavaRegexError(f"\\{letter} is not supported")
    return pattern[at : at + 2], at + 2


def _property(found: re.Match[str], *, is_in_class: bool) -> str:
    content = _CLASSES.get(found[2])
    if content is None or (is_in_class and found[1] == "P"):
        raise JavaRegexError(f"{found[0]} is not supported")
    if is_in_class:
        return content
    return f"[{'^' if found[1] == 'P' else ''}{content}]"


def replace_first(pattern: re.Pattern[str], text: str, replacement: str) -> str:
    """Return the text with the first match replaced, as Java's `Matcher.replaceFirst` does.

    `$1` and `${name}` stand for groups, a backslash takes the next character as it is. Raises
    IllegalGroupError and NoSuchGroupError.
    """
    match = pattern.search(text)
    if match is None:
        return text
    return text[: match.start()] + _expanded(match, replacement) + text[match.end() :]


def _expanded(match: re.Match[str], replacement: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(replacement):
        letter = replacement[at]
        if letter == "\\":
            if at + 1 == len(replacement):
                raise IllegalGroupError("character to be escaped is missing")
            parts.append(replacement[at + 1])
            at += 2
        elif letter == "$":
            part, at = _group(match, replacement, at + 1)
            parts.append(part)
        else:
            parts.append(letter)
            at += 1
    return "".join(parts)


def _group(match: re.Match[str], replacement: str, at: int) -> tuple[str, int]:
    """Return a group's text and the place after the reference to it."""
    if at == len(replacement):
        raise IllegalGroupError("Illegal group reference: group index is missing")
    if replacement[at] == "{":
        return _named_group(match, replacement, at + 1)
    if not "0" <= replacement[at] <= "9":
        raise IllegalGroupError("Illegal group reference")
    number = int(replacement[at])
    at += 1
    if number > match.re.groups:
        raise NoSuchGroupError(f"No group {number}")
    while at < len(replacement) and "0" <= replacement[at] <= "9":
        longer = number * 10 + int(replacement[at])
        if longer > match.re.groups:
            break
        number = longer
        at += 1
    return match[number] or "", at


def _named_group(match: re.Match[str], replacement: str, at: int) -> tuple[str, int]:
    found = re.compile(r"[A-Za-z0-9]*").match(replacement, at)
    name = found[0] if found is not None else ""
    end = at + len(name)
    if not name:
        raise IllegalGroupError("named capturing group is missing trailing '}'")
    if replacement[end : end + 1] != "}":
        raise IllegalGroupError("named capturing group is missing trailing '}'")
    if "0" <= name[0] <= "9":
        raise IllegalGroupError(f"capturing group name {{{name}}} starts with digit character")
    if name not in match.re.groupindex:
        raise IllegalGroupError(f"No group with name {{{name}}}")
    return match[name] or "", end + 1
