"""Numbers of a row that their columns would change: topics are read that way, rows are refused."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.pipeline.sql.sql_types import SqlType

_BITS: Final = {"INTEGER": 32, "BIGINT": 64}


def misfit(path: str, value: Any, kind: SqlType) -> str:
    """Return what is wrong with a whole number in a value of JSON; "" without such a number."""
    if kind.name in _BITS:
        return "" if _is_whole(value, _BITS[kind.name]) else _message(path, value, kind)
    if isinstance(value, list) and kind.name == "ARRAY":
        elements = enumerate(cast("list[Any]", value), 1)
        return _first((f"{path}[{number}]", each, kind.element) for number, each in elements)
    if isinstance(value, dict) and kind.name == "MAP":
        fields = cast("dict[str, Any]", value).items()
        return _first((f"{path}[{name!r}]", each, kind.element) for name, each in fields)
    if isinstance(value, dict) and kind.name == "STRUCT":
        given = {name.upper(): each for name, each in cast("dict[str, Any]", value).items()}
        fields = ((f"{path}->{name}", name.upper(), each) for name, each in kind.fields)
        return _first((inside, given.get(name), each) for inside, name, each in fields)
    return ""


def _first(inside: Iterable[tuple[str, Any, SqlType]]) -> str:
    return next(filter(None, (misfit(*each) for each in inside)), "")


def _is_whole(value: Any, bits: int) -> bool:
    """True for a whole number that fits into the bits, and for what is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return True
    return value == value // 1 and -(1 << bits - 1) <= value < 1 << bits - 1


def _message(path: str, value: Any, kind: SqlType) -> str:
    return f"{path} is {kind}, which does not hold {value}"
