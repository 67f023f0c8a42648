"""Rows of INSERT INTO .. VALUES: which values a column takes."""

import pytest

from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.shell.inserted_rows import InsertedRow, time_problem
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.statement_values import InsertValues
from tests.pipeline.sql.test_catalog import catalog_of

CATALOG = catalog_of("""
CREATE STREAM s (k INT KEY, a STRUCT<ip STRUCT<src STRING, dst STRING>>, b ARRAY<STRUCT<x INT>>)
    WITH (kafka_topic='s', value_format='JSON');
""")


def row(values: str) -> InsertedRow:
    (statement,) = parse_script(f"INSERT INTO s VALUES {values};")
    assert isinstance(statement, InsertValues)
    return InsertedRow(statement, CATALOG)


def test_struct_may_lack_fields_and_others_are_left_out() -> None:
    lacking = row("(1, STRUCT(ip := STRUCT(dst := 'a')), NULL)")
    assert lacking.left_out == []
    more = row("(1, STRUCT(ip := STRUCT(srch := 'a'), no := 1), ARRAY[STRUCT(x := 1, y := 2)])")
    assert more.left_out == ["A->IP->SRCH", "A->NO", "B->Y"]


def test_field_of_another_type_is_refused() -> None:
    with pytest.raises(UnresolvedError, match=r"The column A is STRUCT<.*, and its value is"):
        row("(1, STRUCT(ip := STRUCT(dst := ARRAY[1])), NULL)")


def test_rows_have_no_time_that_is_not_written() -> None:
    assert time_problem(None) == time_problem(1) == ""
    assert "librdkafka would write the present time" in time_problem(0)
    assert time_problem(-5) == "ROWTIME is -5: the time of a record is not negative"
