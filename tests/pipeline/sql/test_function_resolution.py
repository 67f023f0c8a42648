"""Functions by name and types, without Spark, and the table of functions."""

from pathlib import Path

import pytest

from barnabas.pipeline.sql.functions.function_page import page
from barnabas.pipeline.sql.functions.function_table import FUNCTIONS
from barnabas.pipeline.sql.functions.function_values import UNIT, Lambda
from barnabas.pipeline.sql.functions.resolution import (
    aggregate,
    is_aggregate,
    is_table_function,
    scalar,
    table_function,
    takes_unit,
)
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "arguments", "returns"),
    [
        ("ABS", [INTEGER], INTEGER),
        ("ABS", [decimal(4, 2)], decimal(4, 2)),
        ("SQRT", [BIGINT], DOUBLE),
        ("ROUND", [decimal(4, 2)], decimal(3, 0)),
        ("LEN", [BYTES], INTEGER),
        ("CONCAT", [STRING, NULL, STRING], STRING),
        ("SUBSTRING", [BYTES, INTEGER], BYTES),
        ("COALESCE", [NULL, INTEGER, BIGINT], BIGINT),
        ("ARRAY_CONCAT", [array(INTEGER), array(BIGINT)], array(BIGINT)),
        ("AS_MAP", [array(STRING), array(DOUBLE)], map_of(STRING, DOUBLE)),
        (
            "ENTRIES",
            [map_of(STRING, INTEGER), NULL],
            array(struct([("K", STRING), ("V", INTEGER)])),
        ),
        ("DATEADD", [UNIT, INTEGER, DATE], DATE),
        ("FORMAT_TIMESTAMP", [STRING, STRING], STRING),
        ("UNIX_DATE", [STRING], INTEGER),
        ("LEN", [STRING], INTEGER),
        (
            "TRANSFORM",
            [array(INTEGER), Lambda(1, lambda types: array(types[0]))],
            array(array(INTEGER)),
        ),
        ("REDUCE", [array(BIGINT), INTEGER, Lambda(2, lambda types: max(types, key=str))], INTEGER),
    ],
)
def test_a_function_has_a_type_by_its_arguments(
    name: str, arguments: list[SqlType | Lambda], returns: SqlType
) -> None:
    assert scalar(name, arguments).returns == returns


def test_the_form_with_the_fewest_conversions_is_taken() -> None:
    assert scalar("GENERATE_SERIES", [INTEGER, INTEGER]).returns == array(INTEGER)
    assert scalar("GENERATE_SERIES", [INTEGER, BIGINT]).returns == array(BIGINT)


def test_the_state_of_reduce_widens_to_the_results_of_its_lambda() -> None:
    seen: list[tuple[SqlType, ...]] = []

    def returns(types: tuple[SqlType, ...]) -> SqlType:
        seen.append(types)
        return BIGINT

    assert scalar("REDUCE", [array(BIGINT), INTEGER, Lambda(2, returns)]).returns == BIGINT
    assert seen == [(INTEGER, BIGINT), (BIGINT, BIGINT)]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("SUBSTRNG", [STRING], "There is no function SUBSTRNG; did you mean SUBSTRING?"),
        (
            "UCASE",
            [INTEGER],
            "UCASE does not accept (INTEGER). It accepts: UCASE(STRING) -> STRING",
        ),
        ("UCASE", [], "UCASE does not accept (). It accepts"),
        ("FILTER", [array(INTEGER), Lambda(2, lambda _: STRING)], "FILTER does not accept (ARRAY"),
        ("FILTER", [array(INTEGER), Lambda(1, lambda _: STRING)], "(ARRAY<INTEGER>, lambda)"),
        ("DATEADD", [DATE, INTEGER, DATE], "DATEADD does not accept (DATE, INTEGER, DATE)"),
        ("SUM", [INTEGER], "SUM is an aggregate, and not a scalar function"),
    ],
)
def test_a_call_that_no_form_fits_is_refused(
    name: str, arguments: list[SqlType | Lambda], message: str
) -> None:
    with pytest.raises(UnresolvedError) as refused:
        scalar(name, arguments)
    assert message in str(refused.value)


def test_aggregates_and_table_functions_have_kinds() -> None:
    assert aggregate("SUM", [decimal(4, 2)]).returns == decimal(4, 2)
    assert aggregate("TOPK", [INTEGER, INTEGER]).returns == array(INTEGER)
    assert aggregate("LATEST_BY_OFFSET", [STRING]).has_position
    assert not aggregate("COUNT", []).has_position
    assert table_function("EXPLODE", [array(STRING)]).returns == STRING
    assert is_aggregate("COUNT")
    assert not is_aggregate("LEN")
    assert is_table_function("CUBE_EXPLODE")
    assert takes_unit("DATEADD")
    assert not takes_unit("LEN")


def test_every_row_is_described() -> None:
    for name, row in FUNCTIONS.items():
        assert row.name == name == name.upper()
        assert row.signatures
        assert row.description.endswith(".")
        assert row.since.count(".") == 2


def test_the_page_of_functions_is_current() -> None:
    """When it fails: make docs."""
    assert (ROOT / "docs/reference/sql-functions.md").read_text() == page()
