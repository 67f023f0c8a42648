"""CREATE OR REPLACE of queries: a query that continues under its name, and those that cannot."""

import pytest

pytest.importorskip("sqlglot")

from barnabas.pipeline.sql.analysis.applied_statements import Definition
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.scripts import parse_statement, statement_texts
from barnabas.pipeline.sql.shell.catalog_change import AppliedChange, CatalogChange
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError

SOURCES = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM t (k INT KEY, v INT) WITH (kafka_topic='t', value_format='JSON');
CREATE STREAM o AS SELECT k, v FROM s;
CREATE TABLE n AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;
"""


def changed(script: str, catalog: Catalog | None = None, query: str | None = None) -> AppliedChange:
    found = AppliedChange(catalog or Catalog(), None, ())
    for each in statement_texts(script):
        statement = parse_statement(each, {})
        assert isinstance(statement, Definition)
        change = CatalogChange(statement, each.text, Defaults(), "earliest", query)
        found = change.applied_to(found.catalog)
    return found


def test_replaced_query_keeps_its_name() -> None:
    before = changed(SOURCES).catalog
    found = changed("CREATE OR REPLACE STREAM o AS SELECT k, v, v + 1 AS w FROM s;", before)
    assert found.started is not None
    assert found.started.name == "CSAS_O_0"
    assert found.is_replaced
    assert found.ended == ()
    assert [each.name for each in found.catalog.queries] == ["CSAS_O_0", "CTAS_N_1"]
    assert "w FROM s" in found.catalog.queries[0].text
    assert found.catalog.started == before.started


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CREATE OR REPLACE STREAM o AS SELECT k, v FROM t;",
            "CSAS_O_0 reads S, and the new text reads T: DROP O, then create it again",
        ),
        (
            "CREATE OR REPLACE TABLE n AS SELECT k, COUNT(*) AS c FROM s WHERE v > 1 GROUP BY k;",
            "CTAS_N_1 has state, which the new text may not fit: DROP N, then create it again",
        ),
        (
            "INSERT INTO o SELECT k, v FROM t;CREATE OR REPLACE STREAM o AS SELECT k, v FROM s;",
            "O is written by INSERTQUERY_O_2: TERMINATE these queries, then replace it",
        ),
    ],
)
def test_replacement_that_is_not_possible_in_place_is_refused(text: str, message: str) -> None:
    before = changed(SOURCES).catalog
    with pytest.raises(UnresolvedError) as raised:
        changed(text, before)
    assert str(raised.value) == message


def test_drop_ends_the_query_that_writes_the_source() -> None:
    found = changed("DROP STREAM o;", changed(SOURCES).catalog)
    assert found.ended == ("CSAS_O_0",)
    assert found.started is None


def test_query_gets_the_name_that_is_given_and_the_next_ones_other_numbers() -> None:
    before = changed(SOURCES).catalog
    found = changed("CREATE STREAM p AS SELECT * FROM s;", before, "CSAS_P_17")
    assert found.started is not None
    assert found.started.name == "CSAS_P_17"
    following = changed("CREATE STREAM q AS SELECT * FROM s;", found.catalog)
    assert following.started is not None
    assert following.started.name == "CSAS_Q_18"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CSAS_O_0", "There is a query CSAS_O_0 already: SET another barnabas.sql.query.name, or "),
        ("CTAS_P_3", "The name of the query begins with CSAS_ and has letters, digits and _, and "),
        ("CSAS_P 3", "The name of the query begins with CSAS_ and has letters, digits and _, and "),
    ],
)
def test_name_that_a_query_cannot_get_is_refused(name: str, message: str) -> None:
    with pytest.raises(SqlError) as raised:
        changed("CREATE STREAM p AS SELECT * FROM s;", changed(SOURCES).catalog, name)
    assert message in str(raised.value)
