"""The forms in which rows are sent: each response is valid as a whole, also after an error."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from barnabas.pipeline.rest.sql.row_formats import FORMATS, JSON, V1_JSON, DelimitedRows
from barnabas.pipeline.rest.sql.sql_errors import SERVER_ERROR, SqlRestError
from barnabas.pipeline.sql.catalog.source_values import SourceColumn
from barnabas.pipeline.sql.shell.answer_values import DeletedRow, KnownRows, Rows
from barnabas.pipeline.sql.sql_types import BIGINT, STRING

COLUMNS = (SourceColumn("ID", BIGINT), SourceColumn("T", STRING))
ROW = some.tuples(some.integers(-(2**63), 2**63 - 1), some.none() | some.text()).map(list)
BATCHES = some.lists(some.lists(ROW, max_size=3), max_size=3)
ERROR = SqlRestError(SERVER_ERROR, "the query failed")


def response(kind: str, batches: list[Any], *, is_table: bool, fails: bool = False) -> bytes:
    key = ("ID",) if is_table else None
    rows = Rows("q", COLUMNS, is_push=False, limit=None, source=KnownRows([]), table_key=key)
    form = FORMATS[kind](rows)
    parts = [form.head(), *(form.rows(each) for each in batches)]
    return b"".join([*parts, form.failed(ERROR) if fails else form.end()])


@given(BATCHES, some.booleans(), some.booleans())
def test_streamed_rows_are_one_array(batches: list[Any], is_table: bool, fails: bool) -> None:
    head, *elements = json.loads(response(V1_JSON, batches, is_table=is_table, fails=fails))
    schema = f"`ID` BIGINT{' KEY' if is_table else ''}, `T` STRING"
    assert head == {"header": {"queryId": "q", "schema": schema}}
    if fails:
        assert elements.pop() == {"errorMessage": ERROR.body()}
    elif not is_table:
        assert elements.pop() == {"finalMessage": "Query Completed"}
    assert elements == [{"row": {"columns": row}} for batch in batches for row in batch]


@given(BATCHES, some.booleans(), some.booleans())
def test_array_rows_are_one_array(batches: list[Any], is_table: bool, fails: bool) -> None:
    head, *elements = json.loads(response(JSON, batches, is_table=is_table, fails=fails))
    assert head == {
        "queryId": "q",
        "columnNames": ["ID", "T"],
        "columnTypes": ["BIGINT", "STRING"],
    }
    if fails:
        assert elements.pop() == ERROR.body()
    assert elements == [row for batch in batches for row in batch]


@given(BATCHES, some.booleans())
def test_delimited_rows_are_lines(batches: list[Any], fails: bool) -> None:
    text = response(DelimitedRows.content_type, batches, is_table=False, fails=fails)
    head, *lines = [json.loads(line) for line in text.split(b"\n")[:-1]]
    assert head["columnNames"] == ["ID", "T"]
    if fails:
        assert lines.pop() == ERROR.body()
    assert lines == [row for batch in batches for row in batch]


@pytest.mark.parametrize("kind", [V1_JSON, DelimitedRows.content_type])
def test_pushed_rows_end_with_a_line_each(kind: str) -> None:
    rows = Rows("q", COLUMNS, is_push=True, limit=1, source=KnownRows([]))
    form = FORMATS[kind](rows)
    assert form.head().endswith(b"\n")
    assert form.rows([[1, "a"]]).endswith(b"\n")


@pytest.mark.parametrize(("sent", "message"), [(1, b"Limit Reached"), (0, b"Query Completed")])
def test_limit_is_named_at_the_end(sent: int, message: bytes) -> None:
    rows = Rows("q", COLUMNS, is_push=True, limit=1, source=KnownRows([]))
    form = FORMATS[V1_JSON](rows)
    form.rows([[1, "a"]] * sent)
    assert message in form.end()


def test_row_that_a_table_no_longer_has_is_a_tombstone() -> None:
    rows = Rows("q", COLUMNS, is_push=True, limit=None, source=KnownRows([]))
    form = FORMATS[V1_JSON](rows)
    parts = [form.head(), form.rows([DeletedRow([1, None]), [2, None]]), form.end()]
    _, deleted, kept, _ = json.loads(b"".join(parts))
    assert deleted == {"row": {"columns": [1, None], "tombstone": True}}
    assert kept == {"row": {"columns": [2, None]}}
