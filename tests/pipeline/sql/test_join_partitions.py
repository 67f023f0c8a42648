"""Joined streams whose topics have other numbers of partitions: which plans are refused."""

import pytest

from barnabas.pipeline.sql.analysis.plan_values import QueryPlan
from barnabas.pipeline.sql.shell.join_partitions import check_partitions
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from tests.pipeline.sql.test_query_analysis import plan

_PARTITIONS = {"s": 1, "r": 12, "t": 3}
_WITHIN = "WITHIN 1 HOUR"


def transient(text: str) -> QueryPlan:
    return plan(f"{text} EMIT CHANGES", is_persistent=False)


@pytest.mark.parametrize("sides", [("s", "r"), ("r", "s")])
def test_join_by_keys_needs_as_many_partitions(sides: tuple[str, str]) -> None:
    left, right = sides
    found = transient(f"SELECT a.id FROM {left} a JOIN {right} b {_WITHIN} ON a.id = b.id")
    with pytest.raises(UnresolvedError) as refused:
        check_partitions(found, _PARTITIONS)
    expected = (
        f"{left.upper()} and {right.upper()} cannot be joined by their keys, since the topic "
        f"{left} has {_PARTITIONS[left]} partitions and {right} has {_PARTITIONS[right]}: give S "
        "as many, as in CREATE STREAM S_12 WITH (PARTITIONS=12) AS SELECT * FROM S, and join that "
        "stream"
    )
    assert str(refused.value) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT s.id FROM s JOIN r {_WITHIN} ON s.name = r.other",
        f"SELECT s.id FROM s JOIN r {_WITHIN} ON s.id = r.id + 1",
        "SELECT s.id, t.team FROM s JOIN t ON s.id = t.id",
        "SELECT id FROM s",
    ],
)
def test_rows_that_are_distributed_again_are_joined(text: str) -> None:
    check_partitions(transient(text), _PARTITIONS)


def test_topics_with_as_many_partitions_are_joined() -> None:
    found = transient(f"SELECT s.id FROM s JOIN r {_WITHIN} ON s.id = r.id")
    check_partitions(found, {"s": 4, "r": 4})
    check_partitions(found, {"s": 4})
