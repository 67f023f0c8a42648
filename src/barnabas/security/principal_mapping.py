"""`ssl.principal.mapping.rules`: from a distinguished name to a principal's name.

The rules are those of Kafka's `SslPrincipalMapper`; the first whose pattern matches the whole name
decides. Patterns are compiled by RE2, which has no look-around and no references back.
"""

import re
from collections.abc import Callable
from typing import Final, cast

import attrs

_RULE: Final = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)"
)
_GROUP: Final = re.compile(r"\$(\d)")
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


class NoRuleMatchesError(ValueError):
    """No rule applies to a distinguished name."""


@attrs.frozen
class _Rule:
    pattern: str
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """Return the name that the rule gives, None when its pattern does not match."""
        import re2

        found = re2.fullmatch(self.pattern, name)
        if found is None:
            return None
        groups = ("", *cast("tuple[str | None, ...]", found.groups()))

        def group(reference: "re.Match[str]") -> str:
            number = int(reference[1])
            if number == 0:
                return name
            return groups[number] or "" if number < len(groups) else reference[0]

        text = _GROUP.sub(group, self.replacement).replace("\\/", "/")
        return _CASES[self.case](text)


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, rules: str) -> None:
        """Parse the rules. Raises ValueError when one cannot be read."""
        self._rules = _parsed(rules)

    def name(self, distinguished_name: str) -> str:
        """Return a principal's name. Raises NoRuleMatchesError."""
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            name = rule.apply(distinguished_name)
            if name is not None:
                return name.strip()
        raise NoRuleMatchesError(f"No rules apply to {distinguished_name}, rules {self._rules}")


def _parsed(text: str) -> list[_Rule | None]:
    """Return the rules; None stands for DEFAULT."""
    rules: list[_Rule | None] = []
    position = 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(f"Invalid rule: `{text[position:].split(',')[0]}`")
        position = found.end()
        if found[1]:
            rules.append(None)
        else:
            rules.append(_Rule(_checked(found[2].replace("\\/", "/")), found[3], found[4]))
    return rules or [None]


def _checked(pattern: str) -> str:
    import re2

    try:
        re2.compile(pattern)
    except re2.error:
        raise ValueError(
            f"the pattern {pattern} cannot be used: RE2 has no such expression"
        ) from None
    return pattern
