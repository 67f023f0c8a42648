"""Types of SQL: how they are written, and which widen to others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    SqlType,
    array,
    decimal,
    map_of,
    resolved,
    struct,
    widens,
    wider,
)
from barnabas.pipeline.sql.statement_values import CreateType

SIMPLE = (BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP, decimal(4, 2))
NUMBERS = (INTEGER, BIGINT, decimal(10, 2), decimal(38, 10), DOUBLE)
NAMES = st.text("abAB_ é<>", min_size=1, max_size=4).map(str.strip).filter(bool)


def types() -> st.SearchStrategy[SqlType]:
    return st.recursive(
        st.sampled_from(SIMPLE),
        lambda inner: st.one_of(
            inner.map(array),
            st.tuples(st.just(STRING), inner).map(lambda pair: map_of(*pair)),
            st.lists(st.tuples(NAMES, inner), max_size=3, unique_by=lambda pair: pair[0]).map(
                struct
            ),
        ),
        max_leaves=6,
    )


def read(text: str) -> SqlType:
    (statement,) = parse_script(f"CREATE TYPE t AS {text}")
    assert isinstance(statement, CreateType)
    return resolved(statement.type)


@given(types())
def test_a_type_is_read_as_it_is_written(kind: SqlType) -> None:
    assert read(str(kind)) == kind


def test_a_type_is_written_as_ksqldb_writes_it() -> None:
    kind = struct([("A", INTEGER), ("b", array(map_of(STRING, decimal(4, 2))))])
    assert str(kind) == "STRUCT<`A` INTEGER, `b` ARRAY<MAP<STRING, DECIMAL(4, 2)>>>"


def test_aliases_and_declared_types_are_resolved() -> None:
    declared = {"POINT": struct([("X", SqlType("INT"))]), "POINTS": array(SqlType("POINT"))}
    assert resolved(SqlType("VARCHAR")) == STRING
    assert resolved(SqlType("POINTS"), declared) == array(struct([("X", INTEGER)]))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (SqlType("INTEGR"), "The type INTEGR is not known; did you mean INTEGER?"),
        (SqlType("DECIMAL"), "A DECIMAL has a precision and a scale"),
        (decimal(39, 2), "The precision of a DECIMAL is between 1 and 38, and not 39"),
        (decimal(2, 3), "The scale of a DECIMAL is at most its precision, but 3 > 2"),
    ],
)
def test_a_type_that_does_not_exist_is_refused(kind: SqlType, message: str) -> None:
    with pytest.raises(UnresolvedError, match=message.replace("(", r"\(").replace("?", r"\?")):
        resolved(array(kind))


@given(types(), types())
def test_the_wider_type_does_not_depend_on_the_order(one: SqlType, other: SqlType) -> None:
    found, turned = wider(one, other), wider(other, one)
    assert (found and by_name(found)) == (turned and by_name(turned))


def by_name(kind: SqlType) -> SqlType:
    """Return a type with the fields of its structs in the order of their names."""
    fields = tuple(
        sorted(((n, by_name(each)) for n, each in kind.fields), key=lambda pair: pair[0])
    )
    return SqlType(kind.name, tuple(map(by_name, kind.elements)), fields, kind.numbers)


@given(types())
def test_null_widens_to_every_type(kind: SqlType) -> None:
    assert wider(kind, NULL) == wider(NULL, kind) == wider(kind, kind) == kind


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (INTEGER, BIGINT, BIGINT),
        (BIGINT, DOUBLE, DOUBLE),
        (decimal(4, 2), DOUBLE, DOUBLE),
        (decimal(4, 2), INTEGER, decimal(12, 2)),
        (decimal(4, 2), decimal(5, 3), decimal(5, 3)),
        (decimal(38, 0), decimal(38, 38), decimal(38, 38)),
        (array(INTEGER), array(BIGINT), array(BIGINT)),
        (map_of(STRING, INTEGER), map_of(STRING, STRING), None),
        (struct([("A", INTEGER)]), struct([("A", BIGINT)]), struct([("A", BIGINT)])),
        (STRING, INTEGER, None),
        (DATE, TIMESTAMP, None),
    ],
)
def test_the_wider_of_two_types(one: SqlType, other: SqlType, found: SqlType | None) -> None:
    assert wider(one, other) == found


def test_numbers_widen_in_one_direction() -> None:
    for at, kind in enumerate(NUMBERS):
        assert [widens(kind, to) for to in NUMBERS[:at]] == [False] * at
    assert widens(INTEGER, DOUBLE)
    assert not widens(decimal(4, 2), decimal(4, 1))
    assert not widens(STRING, BOOLEAN)
