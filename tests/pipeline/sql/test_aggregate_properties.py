"""Properties of a session that change aggregates: limits, and a row for each record."""

from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as some

from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.sql.analysis.applied_statements import applied
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.functions.aggregate_folds import fold_form
from barnabas.pipeline.sql.functions.aggregate_properties import (
    AggregateProperties,
    aggregate_properties,
    check_property,
)
from barnabas.pipeline.sql.hosting.planned_statement import planned_statement
from barnabas.pipeline.sql.hosting.query_configs import query_config
from barnabas.pipeline.sql.planning.fold_planning import is_folded
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import INTEGER, array
from barnabas.pipeline.sql.statement_values import CreateSource
from tests.pipeline.sql.test_query_analysis import CATALOG, plan

LIST, SET = "ksql.functions.collect_list.limit", "ksql.functions.collect_set.limit"
LIMITS = AggregateProperties({"COLLECT_LIST": 3, "COLLECT_SET": 5})


def test_limits_are_properties() -> None:
    found = aggregate_properties({LIST: "2", SET: "0", "x": "y"})
    assert found == AggregateProperties({"COLLECT_LIST": 2, "COLLECT_SET": 0})
    assert aggregate_properties({LIST: "-1", SET: str(2**31 - 1)}) == AggregateProperties()
    check_property("x", "y")
    with pytest.raises(UnresolvedError, match=r"collect_set.limit is a whole number .* not 'y'"):
        check_property(SET, "y")


@pytest.mark.parametrize("name", ["cache.max.bytes.buffering", "statestore.cache.max.bytes"])
def test_cache_of_no_bytes_is_a_row_for_each_record(name: str) -> None:
    assert aggregate_properties({name: "0"}).has_each_update
    assert aggregate_properties({f"ksql.streams.{name}": "0"}).has_each_update
    assert not aggregate_properties({name: "10000000"}).has_each_update
    for text in ("-1", "1e3", "", "٣"):
        with pytest.raises(UnresolvedError, match=f"{name} is a number of bytes, and not '{text}'"):
            check_property(name, text)


def test_row_for_each_record_is_a_fold() -> None:
    text = "SELECT id, SUM(id) AS a FROM s GROUP BY id"
    each_update = AggregateProperties(has_each_update=True)
    found = plan(text, properties=each_update).aggregation
    assert found is not None
    assert is_folded(found, is_lasting=True)
    assert not is_folded(replace(found, has_each_update=False), is_lasting=True)


def test_limit_is_of_one_aggregate_and_makes_a_fold() -> None:
    text = "SELECT id, COLLECT_LIST(name) AS a, COUNT(*) AS n FROM s GROUP BY id"
    found = plan(text, properties=LIMITS).aggregation
    assert found is not None
    assert [each.function.limit for each in found.aggregates] == [3, None]
    assert is_folded(found, is_lasting=True)
    assert plan("SELECT id, name FROM s", properties=LIMITS).aggregation is None


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


@pytest.mark.parametrize("name", [LIST, SET, "cache.max.bytes.buffering"])
def test_wrong_property_of_a_job_is_named(name: str) -> None:
    with pytest.raises(ConfigValueError, match=f"^Invalid value x for configuration {name}: "):
        planned_statement({name: "x"})


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
