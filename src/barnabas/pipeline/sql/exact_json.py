"""JSON whose numbers keep their digits, as DECIMAL has them: `json` would make floats of them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, cast

_COMPACT = (",", ":")


def loads(text: str | bytes) -> Any:
    """Return the value of a text, in which numbers with a point or an exponent are decimals.

    Raises ValueError.
    """
    return json.loads(text, parse_float=Decimal)


def number(text: str) -> float | Decimal:
    """Return a number of an answer: a decimal where a float would be another text."""
    value = float(text)
    return value if "e" in text.lower() or repr(value) == text else Decimal(text)


def dumps(value: Any, separators: tuple[str, str] = _COMPACT) -> str:
    """Return the text of a value; decimals are numbers without an exponent."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=separators)
    except TypeError:  # a decimal, which `json` does not write
        return _text(value, separators)


def _text(value: Any, separators: tuple[str, str]) -> str:
    comma, colon = separators
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        parts = [f"{dumps(name)}{colon}{_text(each, separators)}" for name, each in fields]
        return f"{{{comma.join(parts)}}}"
    if isinstance(value, list | tuple):
        elements = cast("list[Any]", value)
        return f"[{comma.join(_text(each, separators) for each in elements)}]"
    return json.dumps(value, ensure_ascii=False, separators=separators)
