"""SELECT of a table's key: which rows it wants, and what it makes of a row of a view.

A SELECT that is not in this form runs on Spark, with the same result: the form has columns alone in
the SELECT, and in the WHERE `key = literal` for each key column, and bounds of WINDOWSTART. The
table is one that a query of SQL writes, so its keys have one encoding.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlglot import expressions as exp

from barnabas.pipeline.sql import exact_json
from barnabas.pipeline.views.view_codecs import CODECS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from barnabas.pipeline.sql.analysis.plan_values import QueryPlan
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.catalog.source_values import Format, Source, SourceColumn
    from barnabas.pipeline.sql.statement_values import Select
    from barnabas.pipeline.views.live_view import ViewRow

_START, _END, _TIME = "WINDOWSTART", "WINDOWEND", "ROWTIME"
_CODECS: Final = {
    "INTEGER": CODECS["integer"],
    "BIGINT": CODECS["long"],
    "DOUBLE": CODECS["double"],
    "STRING": CODECS["string"],
}
_KEYS: Final[Mapping[str, type]] = {"INTEGER": int, "BIGINT": int, "STRING": str}
"""The types of keys that have one encoding, with those of their literals."""


@dataclass(frozen=True)
class KeyLookup:
    """The rows of one key, and the columns of the result."""

    source: Source
    key: Mapping[str, int | str]
    columns: tuple[str, ...]
    from_ms: int | None = None
    """The first start of a window, and the last one; None has no bound."""
    to_ms: int | None = None

    @property
    def key_bytes(self) -> bytes:
        """The key as the table's topic has it, without its window."""
        columns, form = self.source.key, self.source.key_format
        if form.name == "KAFKA":
            only = columns[0]
            return _CODECS[only.type.name].encode(self.key[only.name])
        if not form.is_wrapped:
            return _json(self.key[columns[0].name])
        return _json({each.name: self.key[each.name] for each in columns})

    def result(self, row: ViewRow) -> list[Any]:
        """Return the columns of a row. Raises ValueError for a value that is damaged."""
        found: dict[str, Any] = {**self.key, _TIME: row.timestamp}
        if row.window is not None:
            found[_START], found[_END] = row.window
        found |= _values(row.value, self.source.value, self.source.value_format)
        return [found[name] for name in self.columns]


def lookup_of(statement: Select, plan: QueryPlan, catalog: Catalog) -> KeyLookup | None:
    """Return the look-up that a SELECT is, None for one that runs on Spark."""
    source = plan.source.source
    if plan.emit is not None or plan.joins or not source.is_table or statement.where is None:
        return None
    if plan.aggregation is not None or plan.table_functions or not _is_readable(source):
        return None
    if all(each.sink != source.name for each in catalog.queries):
        return None
    columns = _columns(statement, plan, source)
    compared = [_comparison(each) for each in _parts(statement.where)]
    if columns is None or any(each is None for each in compared):
        return None
    key: dict[str, int | str] = {}
    bounds: dict[str, int] = {}
    for name, sign, value in (each for each in compared if each is not None):
        if sign == "=" and name in source.column_names and name not in key:
            key[name] = value
        elif name == _START and source.window is not None and isinstance(value, int):
            bounds |= _bounds(sign, value, bounds)
        else:
            return None
    kinds = {each.name: _KEYS[each.type.name] for each in source.key}
    if key.keys() != kinds.keys() or any(type(key[each]) is not kinds[each] for each in key):
        return None
    return KeyLookup(source, key, columns, bounds.get("from"), bounds.get("to"))


def _is_readable(source: Source) -> bool:
    """True for a source whose keys and values Python reads."""
    has_keys = all(each.type.name in _KEYS for each in source.key)
    has_values = source.value_format.name == "JSON" or (
        source.value_format.name == "KAFKA" and source.value[0].type.name in _CODECS
    )
    return has_keys and has_values and source.key_format.name in ("KAFKA", "JSON")


def _columns(statement: Select, plan: QueryPlan, source: Source) -> tuple[str, ...] | None:
    """Return the columns of the source that the SELECT wants, None for expressions."""
    bounds = (_START, _END) if source.window is not None else ()
    known = (*source.column_names, *bounds, _TIME)
    nodes = [each.expression for each in statement.items]
    if len(nodes) == 1 and isinstance(nodes[0], exp.Star):
        names = plan.columns
    else:
        names = tuple(each.name if isinstance(each, exp.Column) else "" for each in nodes)
    return names if all(each in known for each in names) else None


def _parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conditions that AND connects."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _parts(node.this)
        yield from _parts(node.expression)
    else:
        yield node


_SIGNS: Final[Mapping[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}


def _comparison(node: exp.Expr) -> tuple[str, str, int | str] | None:
    """Return the column, the sign and the literal of a comparison, None for other conditions."""
    sign = _SIGNS.get(type(node))
    column, value = node.args.get("this"), node.args.get("expression")
    if sign is None or not isinstance(column, exp.Column):
        return None
    is_negative = isinstance(value, exp.Neg)
    number = value.this if isinstance(value, exp.Neg) else value
    if not isinstance(number, exp.Literal):
        return None
    text = str(number.this)
    if number.is_string:
        return None if is_negative else (column.name, sign, text)
    if not text.isdecimal():
        return None
    return column.name, sign, -int(text) if is_negative else int(text)


def _bounds(sign: str, value: int, known: Mapping[str, int]) -> dict[str, int]:
    """Return the bounds of a window's start, with one more condition."""
    found = dict(known)
    if sign in ("=", ">", ">="):
        low = value + (sign == ">")
        found["from"] = max(low, found.get("from", low))
    if sign in ("=", "<", "<="):
        high = value - (sign == "<")
        found["to"] = min(high, found.get("to", high))
    return found


def _values(data: bytes, columns: Sequence[SourceColumn], form: Format) -> dict[str, Any]:
    if form.name == "KAFKA":
        return {columns[0].name: _CODECS[columns[0].type.name].decode(data)}
    value: Any = exact_json.loads(data)
    if not form.is_wrapped:
        return {columns[0].name: value}
    if not isinstance(value, dict):
        return dict.fromkeys(each.name for each in columns)
    return {each.name: value.get(each.name) for each in columns}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
