"""CREATE OR REPLACE of queries: a query that continues under its name, and those that cannot."""

from dataclasses import replace

import pytest

pytest.importorskip("sqlglot")

from barnabas.pipeline.sql.analysis.applied_statements import Definition
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.scripts import StatementText, parse_statement, statement_texts
from barnabas.pipeline.sql.shell.answer_values import CommandDone, Skipped
from barnabas.pipeline.sql.shell.catalog_change import AppliedChange, CatalogChange
from barnabas.pipeline.sql.shell.command_answers import done
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError

SOURCES = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM t (k INT KEY, v INT) WITH (kafka_topic='t', value_format='JSON');
CREATE STREAM o AS SELECT k, v FROM s;
CREATE TABLE n AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;
"""


def definition(source: StatementText) -> Definition:
    statement = parse_statement(source, {})
    assert isinstance(statement, Definition)
    return statement


def changed(script: str, catalog: Catalog | None = None, query: str | None = None) -> AppliedChange:
    found = AppliedChange(catalog or Catalog(), None, ())
    for each in statement_texts(script):
        change = CatalogChange(definition(each), each.text, Defaults(), "earliest", query)
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
            "CREATE STREAM d AS SELECT s.k, s.v AS v FROM s JOIN t WITHIN 1 HOUR ON s.k = t.k;"
            "CREATE OR REPLACE STREAM d AS SELECT s.k, s.v + 1 AS v FROM s JOIN t WITHIN 2 HOURS "
            "ON s.k = t.k;",
            "CSAS_D_2 has state, which the new text may not fit: DROP D, then create it again",
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


REPLACE = "CREATE OR REPLACE TABLE n AS SELECT k, COUNT(*) AS c, SUM(v) AS d FROM s GROUP BY k;"


def names(catalog: Catalog) -> list[str]:
    return [each.name for each in catalog.queries]


def test_replaced_table_is_built_beside_the_query_that_has_it() -> None:
    before = changed(SOURCES).catalog
    found = changed(REPLACE, before)
    assert (found.is_built, found.is_replaced, found.ended) == (True, False, ())
    assert names(found.catalog) == ["CSAS_O_0", "CTAS_N_1", "CTAS_N_2"]
    assert found.catalog.sources == before.sources
    assert found.catalog.started == 3
    built = found.catalog.queries[-1]
    assert built.is_pending
    assert built.replacement is not None
    assert built.replacement.query == "CTAS_N_1"
    assert [each.name for each in built.replacement.sink.value] == ["C", "D"]


def test_second_replacement_ends_the_first_one() -> None:
    before = changed(SOURCES + REPLACE).catalog
    found = changed(REPLACE, before)
    assert found.ended == ("CTAS_N_2",)
    assert names(found.catalog) == ["CSAS_O_0", "CTAS_N_1", "CTAS_N_3"]
    assert found.catalog.queries[-1].replacement == before.queries[-1].replacement


@pytest.mark.parametrize("phase", ["SWAPPING", "REMOVING"])
def test_table_that_is_swapped_now_is_not_replaced_again(phase: str) -> None:
    with pytest.raises(UnresolvedError, match="N changes to its new query now: repeat the"):
        changed(REPLACE, in_phase(phase))


def in_phase(phase: str) -> Catalog:
    found = changed(SOURCES + REPLACE).catalog
    *others, built = found.queries
    assert built.replacement is not None
    swapping = replace(built, replacement=replace(built.replacement, phase=phase))
    return replace(found, queries=(*others, swapping))


def test_query_that_has_stopped_for_a_swap_starts_again_when_the_new_one_is_ended() -> None:
    assert changed("TERMINATE CTAS_N_2;", in_phase("SWAPPING")).released == ("CTAS_N_1",)
    assert changed("TERMINATE CTAS_N_2;", in_phase("BUILDING")).released == ()
    assert changed("DROP TABLE n;", in_phase("SWAPPING")).released == ()


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("DROP TABLE n;", ("CTAS_N_1", "CTAS_N_2")),
        ("TERMINATE CTAS_N_1;", ("CTAS_N_1", "CTAS_N_2")),
        ("TERMINATE CTAS_N_2;", ("CTAS_N_2",)),
        ("TERMINATE ALL;", ("CSAS_O_0", "CTAS_N_1", "CTAS_N_2")),
    ],
)
def test_query_that_builds_a_table_ends_with_the_one_that_has_it(
    text: str, ended: tuple[str, ...]
) -> None:
    found = changed(text, changed(SOURCES + REPLACE).catalog)
    assert found.ended == ended


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CREATE STREAM IF NOT EXISTS s (k INT KEY) WITH (kafka_topic='o', format='JSON');",
            "Cannot add stream `S`: A stream with the same name already exists.",
        ),
        (
            "CREATE TABLE IF NOT EXISTS s AS SELECT k, COUNT(*) AS c FROM t GROUP BY k;",
            "Cannot add table `S`: A table with the same name already exists.",
        ),
    ],
)
def test_existing_source_is_left_with_ksqldbs_warning(text: str, message: str) -> None:
    before = changed(SOURCES).catalog
    found = changed(text, before)
    assert found.is_unchanged
    assert found.catalog is before
    (source,) = statement_texts(text)
    assert done(definition(source), found) == Skipped(message)


@pytest.mark.parametrize(
    ("text", "message", "command"),
    [
        ("DROP TABLE IF EXISTS x;", "Source `X` does not exist.", "table/`X`/drop"),
        ("DROP TYPE IF EXISTS x;", "Type 'X' does not exist", "type/`X`/drop"),
        (
            "CREATE TYPE IF NOT EXISTS p AS INT;",
            "P is already registered with type STRING",
            "type/`P`/create",
        ),
    ],
)
def test_statement_that_had_nothing_to_do_says_so(text: str, message: str, command: str) -> None:
    found = changed(text, changed("CREATE TYPE p AS STRING;").catalog)
    (source,) = statement_texts(text)
    assert done(definition(source), found) == CommandDone(message, command)


DECLARED = "CREATE OR REPLACE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', "
JSON_AND_KAFKA = "has the formats JSON and KAFKA of value and key, and not"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{DECLARED} value_format='DELIMITED');", f"S {JSON_AND_KAFKA} DELIMITED and KAFKA"),
        (f"{DECLARED} format='JSON');", f"S {JSON_AND_KAFKA} JSON and JSON"),
        (
            f"{DECLARED} value_format='JSON', wrap_single_value=false);",
            f"S {JSON_AND_KAFKA} JSON without wrapping and KAFKA",
        ),
        (
            f"{DECLARED} value_format='DELIMITED', value_delimiter='|');",
            f"S {JSON_AND_KAFKA} DELIMITED with '|' and KAFKA",
        ),
        (
            f"{DECLARED} value_format='JSON', window_type='SESSION');",
            "The keys of S have no window, and those of the new text have a SESSION window",
        ),
        (
            "CREATE OR REPLACE STREAM o WITH (value_format='DELIMITED') AS SELECT k, v FROM s;",
            f"O {JSON_AND_KAFKA} DELIMITED and KAFKA",
        ),
        (
            "CREATE OR REPLACE TABLE n WITH (value_format='DELIMITED') AS SELECT k, COUNT(*) AS c "
            "FROM s GROUP BY k;",
            f"N {JSON_AND_KAFKA} DELIMITED and KAFKA",
        ),
        (
            "CREATE OR REPLACE TABLE n AS SELECT k, COUNT(*) AS c FROM s "
            "WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k;",
            "The keys of N have no window, and those of the new text have a TUMBLING window of "
            "3600000 ms",
        ),
    ],
)
def test_replacement_that_would_misread_the_records_is_refused(text: str, message: str) -> None:
    before = changed(SOURCES).catalog
    with pytest.raises(SqlError) as raised:
        changed(text, before)
    name = text.split()[4].upper()
    assert raised.value.message == f"{message}: DROP {name}, then create it again"
