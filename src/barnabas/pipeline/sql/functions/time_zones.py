"""The names of time zones that Java and Spark know."""

import functools
import re
import zoneinfo
from typing import Final

_SHORT: Final = (
    "ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT IET IST JST MIT NET NST PLT PNT PRT PST "
    "SST VST EST MST HST"
)
_OFFSET: Final = r"Z|(?:UTC|GMT|UT)?[+-](?:0?[0-9]|1[0-8])(?::?[0-5][0-9])?"


@functools.cache
def zone_pattern() -> str:
    """Return the regular expression of all names of zones and offsets."""
    names = sorted({*zoneinfo.available_timezones(), *_SHORT.split(), "UTC", "GMT", "UT"})
    return f"^(?:{_OFFSET}|{'|'.join(map(re.escape, names))})$"
