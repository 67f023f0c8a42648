"""Texts of clients on one line: names and reasons may have line ends and codes of terminals."""

import re
from typing import Final

_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def escape_control_characters(text: str) -> str:
    r"""Return a text with its control characters as Python writes them: `\n`, `\x1b`.

    Tabs stay.
    """
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
