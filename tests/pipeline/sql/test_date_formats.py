"""Zones and formats of dates, without Spark."""

import re
from typing import Any

import pytest
from sqlglot import expressions as exp

from barnabas.pipeline.sql.functions import date_functions
from barnabas.pipeline.sql.functions.function_table import FUNCTIONS
from barnabas.pipeline.sql.functions.function_values import row, takes_literals
from barnabas.pipeline.sql.functions.time_zones import is_zone
from barnabas.pipeline.sql.functions.typed_expressions import typed
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_types import STRING, SqlType
from barnabas.pipeline.sql.statement_values import Select


@pytest.mark.parametrize(
    "name", ["UTC", "Z", "Europe/Paris", "PST", "+1", "+01:30", "-0130", "GMT+2", "+18:00"]
)
def test_zones_of_java_are_known(name: str) -> None:
    assert is_zone(name)


@pytest.mark.parametrize(
    "name", ["Europe/Nowhere", "+130", "+18:30", "utc", "localtime", "ROC", ""]
)
def test_unknown_names_are_refused(name: str) -> None:
    assert not is_zone(name)


@pytest.mark.parametrize(
    ("form", "is_written", "is_read"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", True, True),
        ("uuuu VV zzzz v OOOO [Z]", True, True),
        ("EEE, d MMM yyyy", True, False),
        ("QQ g F", True, False),
        ("''yyyy", True, True),
        ("MMMMM", False, False),
        ("OO", False, False),
        ("hhh", False, False),
        ("VVVV", False, False),
        ("ww", False, False),
        ("yyyy'T", False, False),
        ("yyyy#", False, False),
    ],
)
def test_formats_that_spark_has_are_accepted(form: str, *, is_written: bool, is_read: bool) -> None:
    assert (re.match(date_functions.FORMAT, form) is not None) == is_written
    assert (re.match(date_functions.READ_FORMAT, form) is not None) == is_read


class Names:
    """A scope in which all columns are texts."""

    declared: dict[str, SqlType] = {}

    def type_of(self, column: exp.Column) -> SqlType:
        return STRING


def test_function_gets_the_values_of_literals(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    form = takes_literals(
        STRING, STRING, STRING, to=STRING, by=lambda known, *columns: taken.append(known)
    )
    monkeypatch.setitem(FUNCTIONS, "ZONED", row("ZONED", "Tests", "1", "A test.", form))
    (statement,) = parse_script("SELECT ZONED(a, lcase('b'), 'c') FROM s;")
    assert isinstance(statement, Select)
    found = typed(statement.items[0].expression, Names())
    monkeypatch.setattr("barnabas.pipeline.sql.functions.text_functions.spark", lambda: _Stub())
    monkeypatch.setattr("barnabas.pipeline.sql.functions.literals.spark", lambda: _Stub())
    found.column(lambda name: name)
    assert taken == [(None, None, "c")]


class _Stub:
    """Functions of columns that return nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None
