"""Types of expressions, without Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from sqlglot import expressions as exp

from barnabas.pipeline.sql.functions.typed_expressions import typed
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)
from barnabas.pipeline.sql.statement_values import Select


@dataclass(frozen=True)
class Columns:
    types: Mapping[str, SqlType]
    declared: Mapping[str, SqlType] = field(default_factory=dict[str, SqlType])

    def type_of(self, column: exp.Column) -> SqlType:
        if column.name not in self.types:
            raise UnresolvedError(f"There is no column {column.name}")
        return self.types[column.name]


COLUMNS = Columns(
    {
        "I": INTEGER,
        "L": BIGINT,
        "D": DOUBLE,
        "S": STRING,
        "P": decimal(4, 2),
        "Q": decimal(5, 3),
        "DAY": DATE,
        "XS": array(INTEGER),
        "M": map_of(STRING, BIGINT),
        "R": struct([("A", INTEGER), ("b", STRING)]),
    },
    {"POINT": struct([("X", SqlType("INT"))])},
)


def type_of(text: str) -> str:
    (statement,) = parse_script(f"SELECT {text} FROM s")
    assert isinstance(statement, Select)
    return str(typed(statement.items[0].expression, COLUMNS).type)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "INTEGER"),
        ("-2147483647", "INTEGER"),
        ("2147483648", "BIGINT"),
        ("1.50", "DECIMAL(3, 2)"),
        ("1e3", "DOUBLE"),
        ("i + i", "INTEGER"),
        ("i * l", "BIGINT"),
        ("l / d", "DOUBLE"),
        ("p + q", "DECIMAL(6, 3)"),
        ("p * q", "DECIMAL(10, 5)"),
        ("p / p", "DECIMAL(11, 7)"),
        ("p % q", "DECIMAL(5, 3)"),
        ("p + i", "DECIMAL(13, 2)"),
        ("p + d", "DOUBLE"),
        ("s + 'x'", "STRING"),
        ("day > '2020-01-01'", "BOOLEAN"),
        ("i in (1, '2')", "BOOLEAN"),
        ("xs[1]", "INTEGER"),
        ("m['a']", "BIGINT"),
        ("r->`b`", "STRING"),
        ("case when i > 1 then i else l end", "BIGINT"),
        ("array[null, 1, 2.5]", "ARRAY<DECIMAL(11, 1)>"),
        ("map('a' := 1, 'b' := l)", "MAP<STRING, BIGINT>"),
        ("struct(a := 1, `c` := s)", "STRUCT<`A` INTEGER, `c` STRING>"),
        ("struct()", "STRUCT< >"),
        ("cast(r as point)", "STRUCT<`X` INTEGER>"),
        ("ifnull(i, l)", "BIGINT"),
        ("coalesce(null, s)", "STRING"),
    ],
)
def test_an_expression_has_the_type_of_ksqldb(text: str, kind: str) -> None:
    assert type_of(text) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i + s", "line 1:8: The operator + does not take INTEGER and STRING"),
        ("s = 1", "line 1:8: The operator = does not take STRING and INTEGER"),
        ("r > r", "does not take STRUCT<`A` INTEGER, `b` STRING> and STRUCT"),
        ("1, nothing", "There is no column NOTHING"),
        ("r->c", "The struct has no field C"),
        ("coalesc(i)", "There is no function COALESC; did you mean COALESCE?"),
        ("ifnull(i)", "IFNULL does not accept (INTEGER). It accepts: IFNULL(A, A) -> A"),
        ("cast(s as array<int>)", "Cast of STRING to ARRAY<INTEGER> is not supported"),
        ("cast(s as decimal(50, 2))", "The precision of a DECIMAL is between 1 and 38"),
        ("i in ()", "IN is followed by a list of at least one value"),
        ("i in (1, 'x')", "The text 'x' is not of type INTEGER"),
        ("9223372036854775808", "too large for a BIGINT"),
        ("1.8e308", "too large for a DOUBLE"),
        ("array[null]", "An ARRAY needs an element that is not NULL"),
        ("case when i > 1 then 's' else 1 end", "these have STRING and INTEGER"),
        ("s = 's' and i > 's'", "line 1:20: The operator > does not take INTEGER and STRING"),
        ("s and true", "AND takes BOOLEAN, and not STRING and BOOLEAN"),
    ],
)
def test_an_expression_that_has_no_type_is_refused(text: str, message: str) -> None:
    (statement,) = parse_script(f"SELECT {text} FROM s")
    assert isinstance(statement, Select)
    with pytest.raises(SqlError) as refused:
        typed(statement.items[-1].expression, COLUMNS)
    assert message in str(refused.value)
