"""SELECT of a table's present rows where reading whole tables is turned off."""

import pytest

from barnabas.pipeline.sql.analysis import pull_rules
from barnabas.pipeline.sql.analysis.pull_rules import LIMIT_CLAUSE, RANGE_SCAN, TABLE_SCAN
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.statement_values import Select
from tests.pipeline.sql.test_catalog import catalog_of

CATALOG = catalog_of("""
CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');
CREATE TABLE n (id INT PRIMARY KEY, v INT) WITH (kafka_topic='n', value_format='JSON');
CREATE TABLE p (a INT PRIMARY KEY, b INT PRIMARY KEY, v INT)
    WITH (kafka_topic='p', format='JSON');
""")
WITHOUT_SCANS = {TABLE_SCAN: "false"}


def check(text: str, properties: dict[str, str]) -> None:
    (statement,) = parse_script(text)
    assert isinstance(statement, Select)
    plan = plan_of(statement, CATALOG, is_persistent=False)
    pull_rules.check_pull(statement, plan, properties)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM s",
        "SELECT * FROM t EMIT CHANGES",
        "SELECT * FROM t WHERE id = 'x' AND v > 2",
        "SELECT * FROM t WHERE 'x' = id",
        "SELECT * FROM t WHERE id IN ('x', 'y') OR (id = 'z')",
        "SELECT * FROM t WHERE id >= 'x' AND v = 1",
        "SELECT * FROM p WHERE b = -2 AND a = 1 + 1",
    ],
)
def test_lookup_is_allowed_without_scans(text: str) -> None:
    check(text, WITHOUT_SCANS)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT * FROM t WHERE v = 1",
        "SELECT * FROM t WHERE id = 'x' OR v = 1",
        "SELECT * FROM t WHERE id <> 'x'",
        "SELECT * FROM t WHERE id > 'x' AND id < 'z'",
        "SELECT * FROM t WHERE id > 'x' OR id < 'b'",
        "SELECT * FROM n WHERE id > 1",
        "SELECT * FROM n WHERE id IN (1, v + 1)",
        "SELECT * FROM n WHERE id + 1 = 2",
        "SELECT * FROM p WHERE a = 1",
    ],
)
def test_scan_is_refused_where_it_is_off(text: str) -> None:
    check(text, {})
    with pytest.raises(UnresolvedError, match="reads the whole table"):
        check(text, WITHOUT_SCANS)


def test_ranges_and_limits_can_be_off() -> None:
    with pytest.raises(UnresolvedError, match="reads the whole table T"):
        check("SELECT * FROM t WHERE id > 'x'", {**WITHOUT_SCANS, RANGE_SCAN: "FALSE"})
    with pytest.raises(UnresolvedError, match="LIMIT needs"):
        check("SELECT * FROM s LIMIT 1", {LIMIT_CLAUSE: "false"})
