"""Numbers in rows of JSON that their columns do not hold."""

from decimal import Decimal
from typing import Any

import pytest

from barnabas.pipeline.sql.shell.misfit_numbers import misfit
from tests.pipeline.sql.test_catalog import catalog_of

CATALOG = catalog_of("""
CREATE STREAM s (
    i INTEGER, b BIGINT, x DOUBLE, d DECIMAL(30, 10), a ARRAY<INTEGER>, m MAP<STRING, BIGINT>,
    r STRUCT<n INTEGER>
) WITH (kafka_topic='s', value_format='JSON');
""")
TYPES = {each.name: each.type for each in CATALOG.source("S").value}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("I", 2**31 - 1),
        ("I", -(2**31)),
        ("I", 3.0),
        ("I", "2147483648"),
        ("I", None),
        ("B", 2**63 - 1),
        ("B", Decimal("9007199254740993.0")),
        ("X", 1e300),
        ("D", Decimal("12345678901234567890.0123456789")),
        ("A", [1, None]),
        ("M", {"a": 2**40}),
        ("R", {"n": 1, "other": 2**70}),
        ("R", None),
    ],
)
def test_value_that_a_column_holds(column: str, value: Any) -> None:
    assert misfit(column, value, TYPES[column]) == ""


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("I", 2**31, "I is INTEGER, which does not hold 2147483648"),
        ("I", 1.5, "I is INTEGER, which does not hold 1.5"),
        ("I", float("inf"), "I is INTEGER, which does not hold inf"),
        ("I", float("nan"), "I is INTEGER, which does not hold nan"),
        ("B", -(2**63) - 1, "B is BIGINT, which does not hold -9223372036854775809"),
        ("A", [1, 2**31], "A[2] is INTEGER, which does not hold 2147483648"),
        ("M", {"a": 0.5}, "M['a'] is BIGINT, which does not hold 0.5"),
        ("R", {"N": 2**31}, "R->N is INTEGER, which does not hold 2147483648"),
    ],
)
def test_number_that_a_column_would_change(column: str, value: Any, problem: str) -> None:
    assert misfit(column, value, TYPES[column]) == problem
