"""Queries to plans: the columns and the key of results, and what is refused."""

import pytest
from sqlglot import expressions as exp

from barnabas.pipeline.sql.analysis.plan_values import PlannedRelation, QueryPlan
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.analysis.relations import Relations
from barnabas.pipeline.sql.functions.aggregate_properties import AggregateProperties
from barnabas.pipeline.sql.planning.fold_planning import check_sets, is_folded
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.statement_values import Select
from tests.pipeline.sql.test_catalog import catalog_of

CATALOG = catalog_of("""
CREATE STREAM s (id INT KEY, name STRING, addr STRUCT<town STRING, zip INT>, tags ARRAY<STRING>)
    WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM r (id INT KEY, other STRING) WITH (kafka_topic='r', value_format='JSON');
CREATE TABLE t (id INT PRIMARY KEY, team INT) WITH (kafka_topic='t', value_format='JSON');
CREATE TABLE u (id INT PRIMARY KEY, n BIGINT) WITH (kafka_topic='u', value_format='JSON');
CREATE TABLE v (vid INT PRIMARY KEY, m BIGINT) WITH (kafka_topic='v', value_format='JSON');
CREATE STREAM w (id INT KEY, x INT) WITH (kafka_topic='w', value_format='JSON',
    window_type='TUMBLING', window_size='5 SECONDS');
CREATE STREAM sessions (id INT KEY, y INT)
    WITH (kafka_topic='x', value_format='JSON', window_type='SESSION');
CREATE TABLE wt (id INT PRIMARY KEY, x INT) WITH (kafka_topic='wt', value_format='JSON',
    window_type='TUMBLING', window_size='5 SECONDS');
CREATE STREAM days (id INT KEY, day DATE, days INT) WITH (kafka_topic='d', value_format='JSON');
CREATE STREAM k (rowkey INT KEY, rowkey_2 INT) WITH (kafka_topic='k', value_format='JSON');
""")


def plan(
    text: str, *, is_persistent: bool = True, properties: AggregateProperties | None = None
) -> QueryPlan:
    (statement,) = parse_script(text)
    assert isinstance(statement, Select)
    return plan_of(statement, CATALOG, is_persistent=is_persistent, properties=properties)


def schema(found: QueryPlan) -> str:
    parts = [f"{each.name} {each.expression.type} KEY" for each in found.key]
    return ", ".join(parts + [f"{each.name} {each.expression.type}" for each in found.value])


RESULTS = [
    ("SELECT id, name FROM s", "ID INTEGER KEY, NAME STRING"),
    ("SELECT id AS k, x.name || '!' FROM s x", "K INTEGER KEY, KSQL_COL_0 STRING"),
    ("SELECT id, addr->* FROM s", "ID INTEGER KEY, TOWN STRING, ZIP INTEGER"),
    ("SELECT name, id FROM s PARTITION BY name", "NAME STRING KEY, ID INTEGER"),
    (
        "SELECT * FROM r PARTITION BY other",
        "OTHER STRING KEY, ID INTEGER",
    ),
    ("SELECT * FROM r PARTITION BY id + 1", "KSQL_COL_0 INTEGER KEY, OTHER STRING, ID INTEGER"),
    ("SELECT * FROM r PARTITION BY NULL", "OTHER STRING, ID INTEGER"),
    (
        "SELECT id, TIMESTAMPADD(DAYS, id, PARSE_TIMESTAMP(name, 'yyyy')) AS t FROM s",
        "ID INTEGER KEY, T TIMESTAMP",
    ),
    ("SELECT id, rowtime AS t, rowoffset AS o FROM r", "ID INTEGER KEY, T BIGINT, O BIGINT"),
    ("SELECT name, COUNT(*) AS n FROM s GROUP BY name", "NAME STRING KEY, N BIGINT"),
    (
        "SELECT name AS k, id + 1, COUNT(id) + 1 FROM s GROUP BY id + 1, name",
        "KSQL_COL_0 INTEGER KEY, K STRING KEY, KSQL_COL_1 BIGINT",
    ),
    (
        "SELECT id, windowstart AS a, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 DAY) "
        "GROUP BY id",
        "ID INTEGER KEY, A BIGINT, N BIGINT",
    ),
    (
        "SELECT a.id, a.other, b.name FROM r a JOIN s b WITHIN 1 HOUR ON a.id = b.id",
        "A_ID INTEGER KEY, OTHER STRING, NAME STRING",
    ),
    (
        "SELECT * FROM t JOIN u ON t.id = u.id",
        "T_ID INTEGER KEY, T_TEAM INTEGER, U_ID INTEGER, U_N BIGINT",
    ),
    ("SELECT t.id, n FROM t JOIN u ON t.team = u.id", "T_ID INTEGER KEY, N BIGINT"),
    (
        "SELECT vid, n FROM t JOIN u ON t.team = u.id LEFT JOIN v ON t.id = vid",
        "VID INTEGER KEY, N BIGINT",
    ),
    (
        "SELECT r.id, s.name, team FROM r FULL JOIN s WITHIN 1 DAY ON r.id = s.id "
        "JOIN t ON r.id = t.id",
        "R_ID INTEGER KEY, NAME STRING, TEAM INTEGER",
    ),
    (
        "SELECT rowkey_3, other FROM r FULL JOIN k WITHIN 1 DAY ON r.id = k.rowkey",
        "ROWKEY_3 INTEGER KEY, OTHER STRING",
    ),
    ("SELECT id, MAP(other := id, 'k' := 2) AS m FROM r", "ID INTEGER KEY, M MAP<STRING, INTEGER>"),
    ("SELECT * FROM r PARTITION BY rowtime", "ROWTIME BIGINT KEY, OTHER STRING, ID INTEGER"),
    (
        "SELECT id, name, STRUCT(name := 1, b := 2)->name, addr->town FROM s",
        "ID INTEGER KEY, NAME STRING, NAME_1 INTEGER, TOWN STRING",
    ),
    (
        "SELECT id, r.windowstart AS a, COUNT(*) AS n FROM r WINDOW TUMBLING (SIZE 1 DAY) "
        "GROUP BY id",
        "ID INTEGER KEY, A BIGINT, N BIGINT",
    ),
    (
        "SELECT rowkey, other FROM r FULL JOIN s WITHIN 1 HOUR ON r.id = s.id",
        "ROWKEY INTEGER KEY, OTHER STRING",
    ),
]


@pytest.mark.parametrize(("query", "expected"), RESULTS)
def test_result_has_columns_and_a_key(query: str, expected: str) -> None:
    assert schema(plan(query)) == expected


def test_transient_query_needs_no_key() -> None:
    assert schema(plan("SELECT name FROM s", is_persistent=False)) == (
        "KEY_0 INTEGER KEY, NAME STRING"
    )


def test_aggregates_of_a_pushed_query_need_no_group() -> None:
    pushed = plan("SELECT COUNT(*) AS n, SUM(id) AS i FROM s EMIT CHANGES", is_persistent=False)
    assert schema(pushed) == "KEY_0 INTEGER KEY, N BIGINT, I INTEGER"
    assert pushed.kind == "TABLE"
    for query in ("SELECT COUNT(*) FROM s", "SELECT id, COUNT(*) FROM s EMIT CHANGES"):
        with pytest.raises(SqlError, match="GROUP BY"):
            plan(query, is_persistent=False)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT * FROM w", "ID WINDOWSTART WINDOWEND X"),
        ("SELECT * FROM wt WHERE id = 1", "ID WINDOWSTART WINDOWEND X"),
        ("SELECT * FROM s", "ID NAME ADDR TAGS"),
    ],
)
def test_star_of_a_transient_query_has_the_window(query: str, names: str) -> None:
    assert " ".join(plan(query, is_persistent=False).columns) == names


REFUSED = [
    ("SELECT id, nme FROM s", "1:12: There is no column NME for SELECT; did you mean NAME?"),
    ("SELECT id, x.name FROM s", "1:12: X in SELECT is not a source of this query"),
    ("SELECT id FROM nowhere", "1:16: There is no stream or table NOWHERE"),
    ("SELECT id, other FROM r a JOIN s b WITHIN 1 DAY ON a.id = b.id", "write A.ID or B.ID"),
    ("SELECT name FROM s", "The SELECT needs the key expression S.ID"),
    ("SELECT t.id, n FROM t FULL JOIN u ON t.id = u.id", "the join expression ROWKEY, which"),
    ("SELECT id FROM s", "The SELECT has the key only"),
    ("SELECT id, name, id AS copy FROM s", "AS_VALUE(S.ID)"),
    ("SELECT id, name, rowtime FROM s", "ROWTIME is a reserved name"),
    ("SELECT id, name a, name a FROM s", "A is there twice"),
    ("SELECT id, name FROM s WHERE name", "WHERE is a BOOLEAN, and this one STRING"),
    ("SELECT id, COUNT(*) FROM s", "An aggregate needs GROUP BY"),
    ("SELECT id, name FROM s GROUP BY id", "S.NAME is not in GROUP BY"),
    ("SELECT id, id + 1 FROM s GROUP BY id", "GROUP BY needs an aggregate"),
    ("SELECT id, CONT(name) FROM s GROUP BY id", "1:12: There is no function CONT; did you mean"),
    ("SELECT id, COUNT(COUNT(id)) FROM s GROUP BY id", "COUNT takes no aggregate"),
    ("SELECT id, name FROM s WINDOW TUMBLING (SIZE 1 DAY)", "WINDOW needs GROUP BY"),
    ("SELECT id, COUNT(*) FROM s GROUP BY id EMIT FINAL", "EMIT FINAL is for aggregates"),
    ("SELECT id, team FROM t PARTITION BY team", "PARTITION BY is for streams"),
    ("SELECT r.id, other FROM r JOIN s ON r.id = s.id", "needs WITHIN"),
    ("SELECT t.id, n FROM t JOIN u ON t.id = u.id + 0", "key of the table U, which is ID"),
    ("SELECT id, NULL AS nothing FROM r", "NOTHING is NULL and has no type"),
    (
        "SELECT id, COUNT(*) AS n FROM r WINDOW TUMBLING (SIZE 1 DAY) WHERE windowstart > 1 "
        "GROUP BY id",
        "There is no column WINDOWSTART for WHERE",
    ),
    ("SELECT id, name FROM s LIMIT 3", "LIMIT is not for a query that continues"),
    ("SELECT id, name FROM s WHERE id = NULL", "The operator = takes no NULL: use IS NULL"),
    ("SELECT id, 1 + NULL AS n FROM s", "The operator + takes no NULL"),
    ("SELECT id, x FROM wt", "WT is a table with windows"),
    ("SELECT r.id, r.id AS copy FROM r JOIN s WITHIN 1 DAY ON r.id = s.id", "AS_VALUE(R.ID)"),
    (
        "SELECT vid, n FROM t JOIN u ON t.id = u.id JOIN v ON t.team = vid",
        "A join by a foreign key is the first of several joins",
    ),
    ("SELECT w.id, x FROM w JOIN r WITHIN 1 DAY ON w.id = r.id", "join two with, or two without"),
    ("SELECT w.id, x FROM w JOIN sessions z WITHIN 1 DAY ON w.id = z.id", "with sessions only"),
    ("SELECT a.x, b.id FROM w a JOIN w b WITHIN 1 DAY ON a.x = b.id", "by their keys only"),
    (
        "SELECT id, MIN(windowstart) FROM r WINDOW TUMBLING (SIZE 1 DAY) GROUP BY id",
        "MIN takes no WINDOWSTART",
    ),
    ("SELECT id, LATEST_BY_OFFSET(other, id) FROM r GROUP BY id", "takes constants after"),
    ("SELECT id, LATEST_BY_OFFSET(other, 0) FROM r GROUP BY id", "1 or more values, and not 0"),
    ("SELECT id, TOPK(other, id) FROM r GROUP BY id", "takes a constant as its last argument"),
    ("SELECT id, TOPKDISTINCT(other, -1) FROM r GROUP BY id", "1 or more values, and not -1"),
    ("SELECT id, TOPK(other, id, 0) FROM r GROUP BY id", "1 or more values, and not 0"),
    ("SELECT r.id FROM r JOIN s WITHIN 1 DAY ON r.id > s.id", "one comparison with ="),
    ("SELECT r.id FROM r JOIN s WITHIN 1 DAY ON r.id = r.id", "One side of ON has columns of S"),
]


@pytest.mark.parametrize(("query", "message"), REFUSED, ids=range(len(REFUSED)))
def test_query_that_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        plan(query)
    assert message in str(error.value)


def test_keys_of_a_map_are_columns_and_names_in_a_struct_are_not() -> None:
    (statement,) = parse_script("SELECT MAP(other := id) AS m, STRUCT(other := id) AS s FROM r")
    assert isinstance(statement, Select)
    relations = Relations([PlannedRelation("R", CATALOG.source("R"))], {})
    found = [relations.qualified(each.expression) for each in statement.items]
    names = [[column.sql() for column in each.find_all(exp.Column)] for each in found]
    assert names == [['"R"."OTHER"', '"R"."ID"'], ['"R"."ID"']]


@pytest.mark.parametrize(
    ("having", "is_lasting"),
    [
        ("COUNT(*) > 3", True),
        ("(3 <= COUNT(*) AND name <> 'x') OR MAX(id) >= COUNT_DISTINCT(id)", False),
        ("(3 <= COUNT(*) AND name <> 'x') OR MAX(id) >= MIN(id)", True),
        ("MIN(id) < 10", True),
        ("10 > MIN(id)", True),
        ("MIN(id) > 10", False),
        ("COUNT(*) = 2", False),
        ("COUNT(*) < 2", False),
        ("NOT COUNT(*) > 2", False),
        ("SUM(id) > 100", False),
        ("COUNT(*) BETWEEN 2 AND 5", False),
        ("name = 'x' AND name IS NOT NULL", True),
        ("COUNT(*) > UNIX_TIMESTAMP()", False),
        ("COUNT(*) - 5 > 0", False),
    ],
)
def test_condition_of_having_that_groups_never_cease_to_meet(having: str, is_lasting: bool) -> None:
    found = plan(f"SELECT name, COUNT(*) AS n FROM s GROUP BY name HAVING {having}").having
    assert found is not None
    assert found.is_lasting is is_lasting


FOLDED = [
    ("COUNT(*)", True, False),
    ("COUNT(*)", False, True),
    ("COUNT(*), COLLECT_SET(name)", True, True),
    ("COLLECT_SET(addr), COLLECT_LIST(MAP(name := tags))", True, True),
    ("COLLECT_SET(name), SUM(CAST(id AS DECIMAL(4, 1)))", True, True),
    ("COLLECT_SET(name), COUNT(MAP(id := name)), LATEST_BY_OFFSET(addr)", True, True),
    ("TOPK(id, addr, 2), SUM_LIST(ARRAY[id])", False, True),
    ("TOPK(id, MAP(id := name), 2)", False, False),
    ("MAX(TO_BYTES(name, 'utf8'))", False, False),
    ("LATEST_BY_OFFSET(TO_BYTES(name, 'utf8'))", False, True),
    ("COLLECT_SET(MAP(id := name))", True, False),
    ("COLLECT_LIST(tags)", True, False),
    ("MAX(addr->zip), COLLECT_LIST(tags)", False, True),
]


@pytest.mark.parametrize(("aggregates", "is_lasting", "expected"), FOLDED)
def test_sets_and_conditions_that_may_end_are_folds(
    aggregates: str, *, is_lasting: bool, expected: bool
) -> None:
    found = plan(f"SELECT id, {aggregates} FROM s GROUP BY id").aggregation
    assert found is not None
    assert is_folded(found, is_lasting=is_lasting) == expected


def test_set_of_maps_without_a_fold_is_refused() -> None:
    text = "SELECT id, COLLECT_SET(MAP(id := name)), COUNT_DISTINCT(name) FROM s GROUP BY id"
    found = plan(text).aggregation
    assert found is not None
    with pytest.raises(
        UnresolvedError, match=r"COLLECT_SET of MAP<INTEGER, STRING> beside COUNT_D"
    ):
        check_sets(found)
    plain = plan("SELECT id, COLLECT_SET(tags) FROM s GROUP BY id").aggregation
    assert plain is not None
    check_sets(plain)


def test_column_with_the_name_of_a_unit_is_a_column_behind_the_unit() -> None:
    relations = Relations([PlannedRelation("DAYS", CATALOG.source("DAYS"))], {})
    (statement,) = parse_script("SELECT DATEADD(DAYS, days, day) FROM days")
    assert isinstance(statement, Select)
    found = relations.qualified(statement.items[0].expression)
    assert [each.table for each in found.find_all(exp.Column)] == ["", "DAYS", "DAYS"]


@pytest.mark.parametrize(
    ("window", "problem"),
    [
        ("TUMBLING (SIZE 0 SECONDS)", "1 to 4503599627370496 ms, and this one 0$"),
        ("SESSION (0 SECONDS)", "1 to 4503599627370496 ms, and this one 0$"),
        ("TUMBLING (SIZE 99999999999 DAYS)", "does not fit: a window has 1 to"),
        (
            "HOPPING (SIZE 10 SECONDS, ADVANCE BY 0 SECONDS)",
            "Windows of 10000 ms cannot start every 0 ms: ADVANCE BY is above 0, and at most SIZE",
        ),
        ("HOPPING (SIZE 1 SECOND, ADVANCE BY 2 SECONDS)", "cannot start every 2000 ms"),
    ],
)
def test_window_that_does_not_exist_is_refused(window: str, problem: str) -> None:
    """Otherwise the CREATE would be answered, and its query fail."""
    with pytest.raises(SqlError, match=problem):
        plan(f"SELECT id, COUNT(*) AS n FROM s WINDOW {window} GROUP BY id")


def test_expression_of_too_many_operators_is_refused() -> None:
    with pytest.raises(SqlError, match=r"^line 1:\d+: An expression of the query has too many op"):
        plan(f"SELECT id, {' + '.join(['id'] * 3000)} AS n FROM s")
