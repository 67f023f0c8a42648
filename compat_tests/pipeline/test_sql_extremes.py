"""No value of a record ends a query of SQL: functions, casts and operators over extreme values.

All signatures of all scalar functions run over rows of values at the bounds of their types, drawn
with a seed (`SQL_SEED`, by default 1). The results are not compared, which other tests do. Records
that are not in the format of their stream are at the end.
"""

from __future__ import annotations

import decimal
import itertools
import math
import os
import random
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("sqlglot")

from barnabas import streams as ks
from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.sql.functions import casts
from barnabas.pipeline.sql.functions.function_values import (
    ANY_DECIMAL,
    ANY_STRUCT,
    POSITION,
    UNIT,
    VARIABLES,
    LambdaParameter,
)
from barnabas.pipeline.sql.functions.operators import operation
from barnabas.pipeline.sql.functions.resolution import aggregate, all_functions, scalar
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    SqlType,
    array,
    map_of,
    struct,
    to_spark,
)
from barnabas.pipeline.sql.sql_types import decimal as decimal_of
from compat_tests import spark as setup
from compat_tests.pipeline.test_sql_queries import driver_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.functions.function_values import Parameter, Signature

COMPILES = True
pytestmark = [setup.needed, pytest.mark.timeout(600)]

ROWS = 100
BATCH = 40
"""Expressions of one SELECT."""
CONSTANTS = {"ROUND": 1, "TRUNC": 1, "MASK": 1, "CORRELATION": 2}
CONSTANTS |= {f"MASK_{each}": 2 for each in ("LEFT", "RIGHT", "KEEP_LEFT", "KEEP_RIGHT")}
"""Functions whose arguments from this one on are constants."""
NUMERIC = decimal_of(6, 2)
TYPES = [STRING, INTEGER, BIGINT, DOUBLE, NUMERIC, BOOLEAN, BYTES, DATE, TIME, TIMESTAMP]
TYPES += [array(INTEGER), map_of(STRING, INTEGER), map_of(INTEGER, STRING)]
SIGNS = ["+", "-", "*", "/", "%", "||", "=", "<>", "<", ">=", "IS DISTINCT FROM", "[]"]
TEXTS = [
    *["", " ", "a", "abc", "%", "\\", "(", "(a)(b)", "[a-", "*", "é", "😀", "\x00", "x" * 1000],
    *["1", "-1", "1,5", "0x1", "1e400", "NaN", "null", "-9223372036854775808", "{", "[1,2,3]"],
    *['{"a":[1]}', "$.a", "$..", "a,b,c", "2020-01-01", "2020-01-01T00:00:00", "24:00", "yyyy"],
    *["yyyy-MM-dd'T'HH:mm:ssX", "QQQ'", "UTC", "+25:00", "http://x:99999999/é?%zz#", "%E0%A4%A"],
    *["base64", "utf8", "ascii", "hex"],
]
VALUES: dict[str, list[Any]] = {
    "STRING": TEXTS,
    "INTEGER": [0, 1, -1, 2, 3, 31, 100, -5, 2**31 - 1, -(2**31)],
    "BIGINT": [0, 1, -1, 2, 86_400_000, 10**15, -(10**17), 2**63 - 1, -(2**63)],
    "DOUBLE": [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 1e19],
    "BOOLEAN": [True, False],
    "BYTES": [b"", b"\x00", b"\xff", b"abc", b"\x00" * 8, b"\xff" * 8, b"\x80" * 4, b"a" * 100],
    "TIME": [0, 1, 3_600_000, 86_399_999],
    "DECIMAL": [decimal.Decimal(each) for each in ("0", "1.25", "-1.25", "9999.99", "-9999.99")],
}


class Extremes:
    """Columns of extreme values, and expressions over them that are selected together."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._chance = random.Random(os.environ.get("SQL_SEED", "1"))
        self._types: dict[str, SqlType] = {}
        self.expressions: dict[str, Any] = {}

    def argument(self, kind: SqlType, place: int) -> Any:
        """Return the column of a type for the argument at a place."""
        name = f"{kind}#{place}"
        functions = pyspark("sql.functions")
        column = functions.col(f"`{name}`")
        if kind in (DATE, TIMESTAMP):  # Python's are within the years 1 to 9999
            self._types.setdefault(name, INTEGER if kind == DATE else BIGINT)
            make = functions.date_from_unix_date if kind == DATE else functions.timestamp_micros
            return make(column)
        self._types.setdefault(name, kind)
        return column

    def add(self, name: str, by: Any, types: Sequence[SqlType], constants: int = 99) -> None:
        """Take an expression over columns of these types."""
        functions = pyspark("sql.functions")
        known = {STRING: "X", BOOLEAN: True}
        arguments = [
            "HOURS"
            if kind == UNIT
            else self.argument(kind, place)
            if place < constants
            else functions.lit(known.get(kind, 2))
            for place, kind in enumerate(types)
        ]
        title = f"{name}({', '.join(map(str, types))})"
        self.expressions[title] = by(*arguments)

    def failures(self) -> dict[str, str]:
        """Run all expressions; return the errors of those that fail."""
        found: dict[str, str] = {}
        frame = self._frame()
        names = list(self.expressions)
        for at in range(0, len(names), BATCH):
            part = names[at : at + BATCH]
            if _error(frame, [self.expressions[each] for each in part]):
                errors = {each: _error(frame, [self.expressions[each]]) for each in part}
                found |= {name: error for name, error in errors.items() if error}
        return found

    def _frame(self) -> Any:
        types = pyspark("sql.types")
        fields = [types.StructField(name, to_spark(kind)) for name, kind in self._types.items()]
        rows = [tuple(map(self._value, self._types.values())) for _ in range(ROWS)]
        frame = self._session.createDataFrame(rows, types.StructType(fields))
        number = pyspark("sql.functions").monotonically_increasing_id()
        frame = frame.withColumns(dict.fromkeys(POSITION, number)).cache()
        frame.count()
        return frame

    def _value(self, kind: SqlType) -> Any:
        chance = self._chance
        if chance.random() < 0.1:
            return None
        if kind.name == "ARRAY":
            return [self._value(kind.element) for _ in range(chance.choice([0, 1, 2, 5]))]
        if kind.name == "MAP":
            keys = [
                chance.choice(VALUES[kind.elements[0].name])
                for _ in range(chance.choice([0, 1, 3]))
            ]
            return {key: self._value(kind.element) for key in keys}
        if kind.name == "STRUCT":
            return tuple(self._value(each) for _, each in kind.fields)
        return chance.choice(VALUES[kind.name])


def _error(frame: Any, columns: Sequence[Any]) -> str:
    """Return the first line of the error that the columns end a query with, or an empty text."""
    named = [column.alias(f"r{at}") for at, column in enumerate(columns)]
    try:
        frame.select(*named).write.format("noop").mode("overwrite").save()
    except Exception as error:
        return str(error).split("\n", 1)[0]
    return ""


def kinds_of(signature: Signature) -> list[list[SqlType]]:
    """Return types of arguments for a signature; none for one that takes a lambda."""
    parameters = list(signature.parameters)
    if signature.variadic:
        parameters.append(parameters[-1])
    kinds: list[list[SqlType]] = []
    for chosen in (STRING, INTEGER, DOUBLE):
        found = [_kind(each, chosen) for each in parameters]
        if None not in found and found not in kinds:
            kinds.append(cast("list[SqlType]", found))
    return kinds


def _kind(parameter: Parameter, chosen: SqlType) -> SqlType | None:
    if isinstance(parameter, LambdaParameter):
        return None
    if parameter.name in VARIABLES:
        return STRING if parameter.name.startswith("K") else chosen
    if parameter.name == "ARRAY":
        element = _kind(parameter.element, chosen)
        return None if element is None else array(element)
    if parameter.name == "MAP":
        key, value = (_kind(each, chosen) for each in parameter.elements)
        return None if key is None or value is None else map_of(key, value)
    special = {ANY_DECIMAL: NUMERIC, ANY_STRUCT: struct([("X", INTEGER), ("Y", STRING)])}
    return special.get(parameter, parameter)


@pytest.mark.parametrize(("kind", "least"), [("SCALAR", 200), ("AGGREGATE", 40)])
def test_no_value_ends_a_query_by_a_function(engine, kind: str, least: int) -> None:
    extremes = Extremes(engine.session)
    for function in all_functions():
        if function.kind != kind:
            continue
        constants = CONSTANTS.get(function.name, 1 if kind == "AGGREGATE" else 99)
        for types in itertools.chain.from_iterable(map(kinds_of, function.signatures)):
            try:
                by = (scalar if kind == "SCALAR" else aggregate)(function.name, types).column
            except UnresolvedError:
                continue
            extremes.add(function.name, by, types, constants)
    assert len(extremes.expressions) >= least
    assert not extremes.failures()


def test_no_value_ends_a_query_by_a_cast_or_an_operator(engine) -> None:
    extremes = Extremes(engine.session)
    for kind, other in itertools.product(TYPES, TYPES):
        try:
            casts.check_cast(kind, other)
        except UnresolvedError:
            pass
        else:
            extremes.add(f"CAST {other} OF", lambda x, a=kind, b=other: casts.cast(x, a, b), [kind])
        for sign in SIGNS:
            try:
                extremes.add(sign, operation(sign, kind, other).column, [kind, other])
            except UnresolvedError:
                continue
    assert len(extremes.expressions) > 200
    assert not extremes.failures()


STREAMS = """
CREATE STREAM j (id INT KEY, a STRING, b INT, i TIMESTAMP, m MAP<STRING, INT>)
    WITH (kafka_topic='j', value_format='JSON');
CREATE STREAM d (id INT KEY, a STRING, i TIMESTAMP)
    WITH (kafka_topic='d', value_format='DELIMITED');
CREATE STREAM k (id STRING KEY, v STRING)
    WITH (kafka_topic='k', key_format='JSON', value_format='KAFKA');
CREATE STREAM oj AS SELECT * FROM j;
CREATE STREAM od AS SELECT * FROM d;
CREATE STREAM ok AS SELECT * FROM k;
"""
DEEP = b"[" * 5_000
OBJECTS = [
    *[b"\xff", b'{"a":"\xff"}', b'{"b":' + DEEP, b'{"i":9223372036854775807}', b"{'a':1}"],
    *[b'{"a":NaN}', b'{"b":1e999999999}', b'{"i":-9223372036854775808}', b'{"a":\x00}', b"[]"],
]
LINES = [b"\xff", b"," * 30_000, b"a," + b"x" * 30_000 + b"," * 22_000, b"a,9223372036854775807"]
KEYS = [b"\xff", b'"\xff"', b"{", b"", DEEP]


def test_records_that_are_not_in_the_format_are_skipped(engine) -> None:
    """Bytes that are not UTF-8 are skipped in JSON, and replaced in lines, as Java does.

    Of a key that an object has twice, the last value stays.
    """
    with driver_of(engine, STREAMS) as driver:
        for topic, values, good in (
            ("j", OBJECTS, b'{"a":"\xc3\xa9","b":1,"i":0,"m":{"x":1,"x":2}}'),
            ("d", LINES, b"a\xff,9223372036854775"),
        ):
            driver.pipe(topic, *(ks.TestRecord(b"\0\0\0\1", each, 5) for each in (*values, good)))
        driver.pipe("k", *(ks.TestRecord(each, b"v", 5) for each in (*KEYS, b'"a"', b"null")))
        objects, lines, keys = (driver.read(each) for each in ("OJ", "OD", "OK"))
        assert [each.value for each in objects] == [b'{"A":"\xc3\xa9","B":1,"I":0,"M":{"x":2}}']
        assert [each.value for each in lines] == [b"a\xef\xbf\xbd,9223372036854775"]
        assert [each.key for each in keys] == [b'"a"', None]


def test_many_conditions_in_a_row(engine) -> None:
    """Spark's planner recurses into them: 240 overflowed the stack of a thread of the JVM."""
    conditions = " OR ".join(f"i = {number}" for number in range(240))
    query = f"""
    CREATE STREAM j (i BIGINT) WITH (KAFKA_TOPIC='j', VALUE_FORMAT='JSON');
    CREATE STREAM found WITH (KAFKA_TOPIC='found') AS SELECT * FROM j WHERE {conditions};
    """
    with driver_of(engine, query) as driver:
        for number in (239, 240):
            driver.pipe("j", ks.TestRecord(None, b'{"i":%d}' % number, 5))
        assert [each.value for each in driver.read("found")] == [b'{"I":239}']
