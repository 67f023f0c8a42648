"""The names of time zones that Java and Spark know."""

import functools
import re
import zoneinfo
from typing import Final

_SHORT: Final = (
    "ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT IET IST JST MIT NET NST PLT PNT PRT PST "
    "SST VST EST MST HST"
)
_OFFSET: Final = r"Z|(?:UTC|GMT|UT)?[+-](?:[0-9]|(?:0[0-9]|1[0-7])(?::?[0-5][0-9])?|18(?::?00)?)"
_NOT_OF_JAVA: Final = frozenset({"Factory", "ROC", "localtime"})


@functools.cache
def zone_pattern() -> str:
    """Return the regular expression of all names of zones and offsets."""
    known = zoneinfo.available_timezones() - _NOT_OF_JAVA
    names = sorted({*known, *_SHORT.split(), "UTC", "GMT", "UT"})
    return f"^(?:{_OFFSET}|{'|'.join(map(re.escape, names))})$"


def is_zone(name: str) -> bool:
    """True for the name of a zone or an offset."""
    return re.match(zone_pattern(), name) is not None
