"""The most values that COLLECT_LIST and COLLECT_SET keep."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as some

from barnabas.pipeline.sql.analysis.applied_statements import applied
from barnabas.pipeline.sql.analysis.collection_limits import check_limit, limited, limits_of
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.functions.aggregate_folds import fold_form
from barnabas.pipeline.sql.hosting.planned_statement import planned_statement
from barnabas.pipeline.sql.hosting.query_configs import query_config
from barnabas.pipeline.sql.planning.fold_planning import is_folded
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import INTEGER, array
from barnabas.pipeline.sql.statement_values import CreateSource
from tests.pipeline.sql.test_query_analysis import CATALOG, plan

LIST, SET = "ksql.functions.collect_list.limit", "ksql.functions.collect_set.limit"


def test_limits_are_properties() -> None:
    assert limits_of({LIST: "2", SET: "0", "x": "y"}) == {"COLLECT_LIST": 2, "COLLECT_SET": 0}
    assert limits_of({LIST: "-1", SET: str(2**31 - 1)}) == {}
    check_limit("x", "y")
    with pytest.raises(UnresolvedError, match=r"collect_set.limit is a whole number .* not 'y'"):
        check_limit(SET, "y")


def test_limit_is_of_one_aggregate_and_makes_a_fold() -> None:
    text = "SELECT id, COLLECT_LIST(name) AS a, COUNT(*) AS n FROM s GROUP BY id"
    found = limited(plan(text), {"COLLECT_LIST": 3, "COLLECT_SET": 5}).aggregation
    assert found is not None
    assert [each.function.limit for each in found.aggregates] == [3, None]
    assert is_folded(found, is_lasting=True)
    plain = plan("SELECT id, name FROM s")
    assert limited(plain, {"COLLECT_LIST": 3}) is plain


def test_job_of_a_query_keeps_the_limit_of_its_session() -> None:
    text = "CREATE TABLE o AS SELECT id, COLLECT_SET(name) AS a FROM s GROUP BY id"
    (statement,) = parse_script(text)
    result = applied(cast("CreateSource", statement), CATALOG, Defaults(), text)
    assert result.started is not None
    properties = {SET: "4", "ksql.other": "1"}
    config = query_config("job", result.started, result.catalog, "earliest", "", properties)
    assert "ksql.other" not in config
    props = {name: value for name, value in config.items() if value is not None}
    found = planned_statement(props).plan.aggregation
    assert found is not None
    assert found.aggregates[0].function.limit == 4


@given(
    some.lists(some.integers(0, 5)),
    some.lists(some.integers(0, 5)),
    some.integers(0, 6) | some.none(),
    some.booleans(),
)
def test_fold_keeps_the_first_values(
    left: list[int], right: list[int], limit: int | None, is_set: bool
) -> None:
    """A session has the first values of the earlier part, then those of the later one."""
    name = "COLLECT_SET" if is_set else "COLLECT_LIST"
    form = fold_form(name, [INTEGER], array(INTEGER), limit)

    def folded(values: list[int]) -> list[int]:
        state = form.initial
        for each in values:
            state = form.add(state, [each])
        return state

    def first(values: list[int]) -> list[int]:
        return (list(dict.fromkeys(values)) if is_set else values)[:limit]

    assert folded(left) == first(left)
    assert form.merge(folded(left), folded(right)) == first([*first(left), *first(right)])
