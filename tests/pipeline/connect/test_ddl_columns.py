"""Columns in Spark's SQL. The compat tests hold the same texts against Spark's own parser."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.connect.connectors.ddl_columns import DdlError, column_names

VALID = {
    "id BIGINT, name STRING": ["id", "name"],
    "id: int, `a b``c` double": ["id", "a b`c"],
    "a DECIMAL, b DECIMAL(10), c dec(10, 2), d numeric(38,38)": ["a", "b", "c", "d"],
    "s STRUCT<x: INT, y: ARRAY<MAP<STRING, STRUCT<z: BINARY NOT NULL>>>>, e struct<>": ["s", "e"],
    "a INT NOT NULL COMMENT 'it\\'s, so', b VARCHAR(10) COMMENT \"x\"": ["a", "b"],
    "t TIMESTAMP_NTZ, l timestamp_ltz, i INTERVAL, y interval year to month": ["t", "l", "i", "y"],
    "i INTERVAL DAY TO SECOND, h INTERVAL HOUR, v VARIANT, c CHAR(3)": ["i", "h", "v", "c"],
    "s STRING COLLATE UNICODE_CI, n VOID, r REAL, b BYTE": ["s", "n", "r", "b"],
    "`größe` INT, 1st INT, date DATE": ["größe", "1st", "date"],
    "struct<a: INT, b: STRING>": ["a", "b"],
    "interval INTERVAL, not INT NOT NULL": ["interval", "not"],
}
INVALID = {
    "id BIGINTT": "'BIGINTT' of column id is not a type of Spark: do you mean BIGINT?",
    "id": "the type of column id is missing at the end",
    "id INT,": "the name of a column is missing at the end",
    "id INT name STRING": "',' is expected before 'name'",
    "my-id INT": "cannot read it from '-id INT': .* needs backquotes",
    "größe INT": "cannot read it from 'größe INT'",
    "a INT COMMENT 'it''s'": "',' is expected",
    "a DECIMAL(39, 2)": "the precision is at most 38",
    "a DECIMAL(4, 5)": "the scale at most the precision",
    "a VARCHAR": r"'\(' is expected, not 'the end'",
    "a CHAR(x)": "a number is expected in the type of column a, not 'x'",
    "a ARRAY<INT": "'>' is expected, not 'the end'",
    "a MAP<INT>": "',' is expected, not '>'",
    "a INT COMMENT x": "expected in quotes",
    "a INT NOT": "'NULL' is expected",
    "i INTERVAL SECOND TO DAY": "there is no INTERVAL SECOND TO DAY",
    "'a' INT": "the name of a column is expected",
    "a INT)": r"',' is expected before '\)'",
}


@pytest.mark.parametrize("text", VALID)
def test_names_of_valid_columns(text: str) -> None:
    assert column_names(text) == VALID[text]


@pytest.mark.parametrize("text", INVALID)
def test_text_that_is_not_a_list_of_columns_says_why(text: str) -> None:
    with pytest.raises(DdlError, match=INVALID[text]):
        column_names(text)


@given(st.text(alphabet="ab`'\"<>(),:. INTARYMPSUCDEL\\1", max_size=40))
def test_any_text_has_columns_or_an_error(text: str) -> None:
    with contextlib.suppress(DdlError):
        assert column_names(text)
