"""Values in the rows of a SELECT: times as texts, numbers with their digits."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from barnabas.pipeline.sql import exact_json
from barnabas.pipeline.sql.catalog.source_values import SourceColumn
from barnabas.pipeline.sql.shell.answer_values import DeletedRow, KnownRows
from barnabas.pipeline.sql.shell.shown_values import (
    ShownRows,
    date_text,
    time_text,
    timestamp_text,
)
from barnabas.pipeline.sql.sql_types import (
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    array,
    decimal,
    map_of,
    struct,
)

DAY = "1970-01-01T00:00:00"


def test_times_are_texts_of_java() -> None:
    """The first three are those of ksqlDB's `ApiJsonMapperTest`; Java printed the others."""
    assert timestamp_text(943_959_600_000) == "1999-11-30T11:00:00.000"
    assert time_text(10_000) == "00:00:10"
    assert date_text(10) == "1970-01-11"
    assert [time_text(ms) for ms in (0, 61_999, 86_399_999)] == ["00:00", "00:01:01", "23:59:59"]
    assert [date_text(days) for days in (-719_529, 2_932_896, 2_932_897)] == [
        "-0001-12-31",
        "9999-12-31",
        "+10000-01-01",
    ]
    assert timestamp_text(253_402_300_800_000) == "10000-01-01T00:00:00.000"
    assert timestamp_text(-12_219_292_800_001) == "1582-10-04T23:59:59.999"


@given(some.dates(), some.datetimes(min_value=datetime(1583, 1, 1)))
def test_texts_agree_with_python(day: date, moment: datetime) -> None:
    assert date_text((day - date(1970, 1, 1)).days) == day.isoformat()
    ms = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        milliseconds=1
    )
    assert timestamp_text(ms) == moment.isoformat(timespec="milliseconds")


def test_rows_have_texts_outside_structs() -> None:
    types = [TIMESTAMP, array(DATE), map_of(STRING, TIME), struct([("T", TIMESTAMP)]), INTEGER]
    columns = [SourceColumn(str(at), each) for at, each in enumerate(types)]
    rows = [
        [0, [1, None], {"a": 1000, "b": None}, {"T": 5}, 7],
        DeletedRow([1, None, None, None, None]),
    ]
    shown = ShownRows(KnownRows(rows), columns)
    found = shown.take(0)
    assert found is not None
    assert found == [
        [
            "1970-01-01T00:00:00.000",
            ["1970-01-02", None],
            {"a": "00:00:01", "b": None},
            {"T": 5},
            7,
        ],
        ["1970-01-01T00:00:00.001", None, None, None, None],
    ]
    assert [type(each) for each in found] == [list, DeletedRow]
    assert shown.take(0) is None


def test_numbers_are_those_of_their_types() -> None:
    numbers = struct([("D", DOUBLE), ("P", decimal(4, 2))])
    columns = [
        SourceColumn("A", DOUBLE),
        SourceColumn("B", decimal(9, 8)),
        SourceColumn("C", numbers),
    ]
    (row,) = ShownRows(KnownRows([exact_json.loads(ROW)]), columns).take(0) or []
    assert row == [1e20, Decimal("0.00000010"), {"D": 0.5, "P": Decimal("1.50")}]
    assert type(row[0]) is float
    assert exact_json.dumps(row) == '[1e+20,0.00000010,{"D":0.5,"P":1.50}]'
    assert exact_json.dumps(row, (", ", ": ")) == '[1e+20, 0.00000010, {"D": 0.5, "P": 1.50}]'


ROW = '[1.0E20, 1.0E-7, {"D": 0.5, "P": 1.50}]'


@given(
    some.decimals(allow_nan=False, allow_infinity=False),
    some.floats(allow_nan=False, allow_infinity=False),
)
def test_numbers_of_an_answer_keep_their_digits(exact: Decimal, double: float) -> None:
    text = exact_json.dumps([exact, "\u00e4", None])
    assert exact_json.dumps(json.loads(text, parse_float=exact_json.number)) == text
    assert exact_json.loads(text)[0] == exact
    assert json.loads(json.dumps(double), parse_float=exact_json.number) == double


def test_rows_of_other_types_stay_as_they_are() -> None:
    rows: list[Sequence[Any]] = [[1, {"T": 5}]]
    columns = [SourceColumn("A", INTEGER), SourceColumn("B", struct([("T", TIMESTAMP)]))]
    (row,) = ShownRows(KnownRows(rows), columns).take(0) or []
    assert row is rows[0]
