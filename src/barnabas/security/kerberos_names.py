"""`sasl.kerberos.principal.to.local.rules`: from a Kerberos principal to a user's name.

The rules are those of Kafka's `KerberosShortNamer`; the first that applies decides. Patterns are
compiled by RE2, which has no look-around and no references back. A reference to a part that a rule
does not have makes Kafka refuse logins; here it is refused when the rules are parsed.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, cast

import attrs

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?",
    re.ASCII,
)
_PARAMETER: Final = re.compile(r"\$(\d*)", re.ASCII)
_REPLACEMENT: Final = re.compile(r"\\(.)|\$(\d)(\d*)|\\$|\$", re.ASCII | re.DOTALL)
_NOT_SIMPLE: Final = re.compile("[/@]")
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


class NoShortNameError(ValueError):
    """A principal has no short name."""


class _Match(Protocol):
    def start(self) -> int: ...

    def end(self) -> int: ...

    def groups(self) -> tuple[str | None, ...]: ...

    def group(self) -> str: ...


class _Pattern(Protocol):
    groups: int

    def search(self, text: str, pos: int) -> _Match | None: ...

    def fullmatch(self, text: str) -> _Match | None: ...


@attrs.frozen
class KerberosName:
    """A principal: `service/host@REALM`, or `user@REALM`."""

    service: str
    host: str | None = None
    realm: str | None = None

    @classmethod
    def parse(cls, text: str) -> "KerberosName":
        """Return the parts of a principal. Raises NoShortNameError when there are more."""
        found = _NAME.fullmatch(text)
        if found is not None:
            return cls(found[1], found[2], found[3])
        if "@" in text:
            raise NoShortNameError(f"Malformed Kerberos name: {text}")
        return cls(text)


@attrs.frozen
class _Rule:
    components: int
    format: str
    match: _Pattern | None
    pattern: _Pattern | None
    replacement: str
    is_repeated: bool
    case: str

    def apply(self, parameters: Sequence[str]) -> str | None:
        """Return the name that the rule gives, None when it does not apply."""
        if len(parameters) - 1 != self.components:
            return None
        base = _PARAMETER.sub(lambda found: parameters[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is not None:
            base = _replaced(base, self.pattern, self.replacement, is_repeated=self.is_repeated)
        return base


class KerberosShortNames:
    """The rules of one listener."""

    def __init__(self, rules: Iterable[str], default_realm: str) -> None:
        """Parse the rules. Raises ValueError when one cannot be read."""
        self._shown = tuple(rules)
        self._rules = [_parsed(rule) for rule in self._shown]
        self._default_realm = default_realm

    def short_name(self, principal: str) -> str:
        """Return the name of a principal's user. Raises NoShortNameError."""
        name = KerberosName.parse(principal)
        if name.realm is None:
            return name.service
        parameters = [name.realm, name.service, *([] if name.host is None else [name.host])]
        for rule in self._rules:
            if rule is None:
                found = name.service if name.realm == self._default_realm else None
            else:
                found = rule.apply(parameters)
            if found is not None and _NOT_SIMPLE.search(found):
                raise NoShortNameError(
                    f"Non-simple name {found} after a rule of {', '.join(self._shown)}"
                )
            if found is not None:
                return _CASES["" if rule is None else rule.case](found)
        raise NoShortNameError(
            f"No rules apply to {principal}, rules {', '.join(self._shown)}; DEFAULT takes "
            f"principals of the realm {self._default_realm or '(none)'} only"
        )


def _parsed(rule: str) -> _Rule | None:
    """Return a rule; None stands for DEFAULT. Raises ValueError."""
    found = _RULE.match(rule)
    if found is None:
        raise ValueError(f"Invalid rule: {rule}")
    if found.end() != len(rule):
        rest = rule[found.end() :]
        raise ValueError(f"Invalid rule: `{rule}`, unmatched substring: `{rest}`")
    if found[1]:
        return None
    if not found[2] or int(found[2]) >= 1 << 31:
        raise ValueError(f"Invalid rule: {rule}: the number of parts is missing or too large")
    components = int(found[2])
    for parameter in _PARAMETER.finditer(found[3]):
        if not parameter[1] or int(parameter[1]) > components:
            raise ValueError(
                f"Invalid rule: {rule}: {parameter[0]} names a part outside of $0 to ${components}"
            )
    pattern = None if found[5] is None else _compiled(rule, found[5])
    replacement = found[6] or ""
    if pattern is not None:
        _check_replacement(rule, replacement, pattern.groups)
    return _Rule(
        components,
        found[3],
        None if found[4] is None else _compiled(rule, found[4]),
        pattern,
        replacement,
        found[7] is not None,
        found[8] or "",
    )


def _compiled(rule: str, pattern: str) -> _Pattern:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return cast("_Pattern", re2.compile(pattern, options))
    except re2.error:
        raise ValueError(
            f"Invalid rule: {rule}: the pattern {pattern} cannot be used: RE2 has no such "
            "expression"
        ) from None


def _check_replacement(rule: str, replacement: str, groups: int) -> None:
    for found in _REPLACEMENT.finditer(replacement):
        if found[1] is None and (found[2] is None or int(found[2]) > groups):
            raise ValueError(
                f"Invalid rule: {rule}: {found[0]} in the replacement is not a group of the "
                "pattern; write \\$ and \\\\ for the characters themselves"
            )


def _replaced(text: str, pattern: _Pattern, replacement: str, *, is_repeated: bool) -> str:
    """Return a text with its first match, or all, replaced as Java's `Matcher` does it."""
    parts: list[str] = []
    copied = position = 0
    while position <= len(text):
        found = pattern.search(text, position)
        if found is None:
            break
        parts += [text[copied : found.start()], _expanded(replacement, found, pattern.groups)]
        copied = found.end()
        position = copied + (found.start() == copied)
        if not is_repeated:
            break
    return "".join([*parts, text[copied:]])


def _expanded(replacement: str, match: _Match, groups: int) -> str:
    """Return a replacement with the groups of a match in it.

    As in Java, a reference takes as many digits as there are groups for.
    """

    def part(found: "re.Match[str]") -> str:
        if found[1] is not None:
            return found[1]
        number, used = int(found[2]), 0
        for digit in found[3]:
            if number * 10 + int(digit) > groups:
                break
            number, used = number * 10 + int(digit), used + 1
        value = match.group() if number == 0 else match.groups()[number - 1] or ""
        return value + found[3][used:]

    return _REPLACEMENT.sub(part, replacement)
