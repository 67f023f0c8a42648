"""Names of topics, groups and properties, selected by regular expressions of whole names."""

import re
from collections.abc import Sequence


def matches_any(patterns: Sequence[str], name: str) -> bool:
    """True when one of the patterns matches the whole name."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def is_selected(name: str, patterns: Sequence[str], excluded: Sequence[str]) -> bool:
    """True for a name that one of the patterns matches, and none of the excluded ones."""
    return matches_any(patterns, name) and not matches_any(excluded, name)
