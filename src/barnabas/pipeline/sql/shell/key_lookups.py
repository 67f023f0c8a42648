"""SELECT of a table's keys: which rows it wants, and what it makes of a row of a view.

A SELECT that is not in this form runs on Spark, with the same result: the form has columns alone in
the SELECT, and in the WHERE `key = literal` or `key IN (literals)` for each key column, and bounds
of WINDOWSTART. The table is one that a query of SQL writes, so its keys have one encoding.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlglot import expressions as exp

from barnabas.pipeline.sql import exact_json
from barnabas.pipeline.sql.analysis.pull_rules import split
from barnabas.pipeline.views.view_codecs import CODECS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

_KEYS_MAX: Final = 1_000
"""Keys of a look-up; Spark reads the table once for more of them."""


@dataclass(frozen=True)
class KeyLookup:
    """The rows of keys, and the columns of the result."""

    source: Source
    keys: tuple[Mapping[str, int | str], ...]
    columns: tuple[str, ...]
    from_ms: int | None = None
    """The first start of a window, and the last one; None has no bound."""
    to_ms: int | None = None

    def key_bytes(self, key: Mapping[str, int | str]) -> bytes:
        """Return a key as the table's topic has it, without its window."""
        columns, form = self.source.key, self.source.key_format
        if form.name == "KAFKA":
            only = columns[0]
            return _CODECS[only.type.name].encode(key[only.name])
        if not form.is_wrapped:
            return _json(key[columns[0].name])
        return _json({each.name: key[each.name] for each in columns})

    def result(self, key: Mapping[str, int | str], row: ViewRow) -> list[Any]:
        """Return the columns of a row of a key. Raises ValueError for a value that is damaged."""
        found: dict[str, Any] = {**key, _TIME: row.timestamp}
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
    compared = [_comparison(each) for each in split(statement.where, exp.And)]
    if columns is None or any(each is None for each in compared):
        return None
    wanted: dict[str, tuple[int | str, ...]] = {}
    bounds: dict[str, int] = {}
    for name, sign, values in (each for each in compared if each is not None):
        if sign in ("=", "IN") and name in source.column_names and name not in wanted:
            wanted[name] = values
        elif name == _START and source.window is not None and sign != "IN":
            if not isinstance(values[0], int):
                return None
            bounds |= _bounds(sign, values[0], bounds)
        else:
            return None
    keys = _keys(wanted, source)
    if keys is None:
        return None
    return KeyLookup(source, keys, columns, bounds.get("from"), bounds.get("to"))


def _keys(
    wanted: Mapping[str, tuple[int | str, ...]], source: Source
) -> tuple[Mapping[str, int | str], ...] | None:
    """Return the keys that have one of the values in each column, None where Spark reads them."""
    kinds = {each.name: _KEYS[each.type.name] for each in source.key}
    if wanted.keys() != kinds.keys() or math.prod(map(len, wanted.values())) > _KEYS_MAX:
        return None
    if any(type(value) is not kinds[name] for name in wanted for value in wanted[name]):
        return None
    different = (dict.fromkeys(values) for values in wanted.values())
    return tuple(dict(zip(wanted, each, strict=True)) for each in itertools.product(*different))


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


_SIGNS: Final[Mapping[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.In: "IN",
}


def _comparison(node: exp.Expr) -> tuple[str, str, tuple[int | str, ...]] | None:
    """Return the column, the sign and the literals of a comparison, None for other conditions."""
    sign = _SIGNS.get(type(node))
    column = node.args.get("this")
    if sign is None or not isinstance(column, exp.Column):
        return None
    given = node.expressions if sign == "IN" else [node.args.get("expression")]
    values = [_literal(each) for each in given]
    found = tuple(each for each in values if each is not None)
    return (column.name, sign, found) if found and len(found) == len(values) else None


def _literal(node: object) -> int | str | None:
    """Return a text or a whole number, None for other expressions."""
    is_negative = isinstance(node, exp.Neg)
    number = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(number, exp.Literal):
        return None
    text = str(number.this)
    if number.is_string:
        return None if is_negative else text
    if not text.isdecimal():
        return None
    return -int(text) if is_negative else int(text)


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
