"""Rows of SQL's types, made of JSON, through expressions of SQL in one session of Spark."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import expressions as exp

from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.sql.functions.typed_expressions import typed
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import SqlType, to_spark

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INDEX = "_index"


@dataclass(frozen=True)
class Names:
    """The columns of a source, with those types that statements declared."""

    types: Mapping[str, SqlType]
    declared: Mapping[str, SqlType] = field(default_factory=dict[str, SqlType])

    def type_of(self, column: exp.Column) -> SqlType:
        """Return the type of a column."""
        if column.name not in self.types:
            raise UnresolvedError(f"There is no column {column.name}")
        return self.types[column.name]


def of_json(value: Any, kind: SqlType) -> Any:
    """Return the value that Spark takes for JSON in the form of ksqlDB's tests."""
    if value is None:
        return None
    match kind.name:
        case "INTEGER" | "BIGINT" | "TIME":
            return int(value)
        case "DOUBLE":
            return float(value)
        case "BOOLEAN":
            return value if isinstance(value, bool) else str(value).lower() == "true"
        case "STRING":
            return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        case "DECIMAL":
            exact = decimal.Decimal(str(value))
            step = decimal.Decimal(1).scaleb(-kind.scale)
            return exact.quantize(step, decimal.ROUND_HALF_UP, decimal.Context(60))
        case "BYTES":
            return base64.b64decode(value)
        case "DATE":
            return (_EPOCH + datetime.timedelta(days=int(value))).date()
        case "TIMESTAMP":
            return (_EPOCH + datetime.timedelta(milliseconds=int(value))).replace(tzinfo=None)
        case "ARRAY":
            return [of_json(each, kind.element) for each in value]
        case "MAP":
            pairs = ((of_json(key, kind.elements[0]), each) for key, each in value.items())
            return {key: of_json(each, kind.element) for key, each in pairs}
        case _:
            given = {name.upper(): each for name, each in value.items()}
            return tuple(of_json(given.get(name.upper()), each) for name, each in kind.fields)


def of_spark(value: Any, kind: SqlType) -> Any:
    """Return a value that Spark gave in the form of `of_json`."""
    if value is None:
        return None
    if kind.name == "STRUCT":
        return tuple(of_spark(value[name], each) for name, each in kind.fields)
    if kind.name == "ARRAY":
        return [of_spark(each, kind.element) for each in value]
    if kind.name == "MAP":
        return {key: of_spark(each, kind.element) for key, each in value.items()}
    return bytes(value) if kind.name == "BYTES" else value


def same(one: Any, other: Any) -> bool:
    """True for equal values; DOUBLEs may differ in the last digits, and NaN equals NaN."""
    if isinstance(one, float) and isinstance(other, float):
        are_nan = one != one and other != other
        return are_nan or one == other or abs(one - other) <= abs(one) * 1e-12
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


@dataclass(frozen=True)
class Selected:
    """The results of expressions for the rows that passed, with their types."""

    types: list[SqlType]
    rows: list[tuple[Any, ...]]


def selected(
    session: Any,
    names: Names,
    rows: Sequence[Sequence[Any]],
    expressions: Sequence[exp.Expr],
    where: exp.Expr | None = None,
) -> Selected:
    """Return the expressions of each row for which `where` is true."""
    types = pyspark("sql.types")
    fields = [
        types.StructField(f"c{at}", to_spark(kind)) for at, kind in enumerate(names.types.values())
    ]
    schema = types.StructType([types.StructField(_INDEX, types.IntegerType()), *fields])
    frame = session.createDataFrame([(at, *row) for at, row in enumerate(rows)], schema)
    places = {name: f"c{at}" for at, name in enumerate(names.types)}

    def column(name: exp.Column) -> Any:
        return frame[places[name.name]]

    if where is not None:
        frame = frame.filter(typed(where, names).column(column))
    results = [typed(each, names) for each in expressions]
    columns = [each.column(column).alias(f"r{at}") for at, each in enumerate(results)]
    found = sorted(frame.select(_INDEX, *columns).collect(), key=lambda row: row[0])
    kinds = [each.type for each in results]
    return Selected(kinds, [tuple(map(of_spark, list(row)[1:], kinds)) for row in found])
