"""Statements of ksqlDB as values."""

import pytest
from sqlglot import expressions as exp

from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError
from barnabas.pipeline.sql.sql_types import SqlType


def parsed(text: str) -> st.Statement:
    (statement,) = parse_script(text)
    return statement


def failure(text: str) -> str:
    with pytest.raises(SqlError) as raised:
        list(parse_script(text))
    return str(raised.value)


def test_stream_has_columns_with_roles_and_types() -> None:
    statement = parsed(
        "CREATE OR REPLACE STREAM IF NOT EXISTS s (k INT KEY, `v w` STRUCT<a ARRAY<INT>, b "
        "DECIMAL(4, 2)>, m MAP<STRING, Point>, one BYTES HEADER('trace'), n BIGINT ARRAY) "
        "WITH (kafka_topic='t', 'partitions'=-2, wrap_single_value=false, replicas=1.5);"
    )
    integer = SqlType("INT")
    struct = SqlType(
        "STRUCT",
        fields=(
            ("A", SqlType("ARRAY", (integer,))),
            ("B", SqlType("DECIMAL", numbers=(4, 2))),
        ),
    )
    assert statement == st.CreateSource(
        "STREAM",
        "S",
        (
            st.Column("K", integer, "KEY"),
            st.Column("v w", struct),
            st.Column("M", SqlType("MAP", (SqlType("STRING"), SqlType("POINT")))),
            st.Column("ONE", SqlType("BYTES"), "HEADERS", "trace"),
            st.Column("N", SqlType("ARRAY", (SqlType("BIGINT"),))),
        ),
        {"KAFKA_TOPIC": "t", "PARTITIONS": -2, "WRAP_SINGLE_VALUE": False, "REPLICAS": 1.5},
        or_replace=True,
        if_not_exists=True,
    )


def test_source_table_has_a_primary_key() -> None:
    statement = parsed("create source table t (id string primary key) with (kafka_topic='t')")
    assert isinstance(statement, st.CreateSource)
    assert (statement.kind, statement.read_only) == ("TABLE", True)
    assert statement.columns == (st.Column("ID", SqlType("STRING"), "PRIMARY KEY"),)


def test_query_has_all_its_clauses() -> None:
    statement = parsed(
        "CREATE TABLE c WITH (format='JSON') AS SELECT a.id AS `key`, count(*) n FROM a_stream a "
        "LEFT OUTER JOIN b WITHIN (1 HOUR, 2 DAYS) GRACE PERIOD 5 SECONDS ON a.id = b.id "
        "WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES, RETENTION 2 DAYS, GRACE PERIOD 0 "
        "MILLISECONDS) WHERE a.x > 1 GROUP BY (a.id, b.id) HAVING count(*) > 1 EMIT FINAL LIMIT 7"
    )
    assert isinstance(statement, st.CreateSource)
    assert statement.query is not None
    query = statement.query
    assert [item.alias for item in query.items] == ["key", "N"]
    assert query.source == st.Relation("A_STREAM", "A")
    (join,) = query.joins
    assert (join.kind, join.relation) == ("LEFT", st.Relation("B", "B"))
    assert join.within == st.Within(
        st.Duration(3_600_000), st.Duration(172_800_000), st.Duration(5000)
    )
    assert query.window == st.Window(
        "HOPPING",
        st.Duration(3_600_000),
        st.Duration(300_000),
        st.Duration(172_800_000),
        st.Duration(0),
    )
    assert query.where is not None
    assert query.having is not None
    assert len(query.group_by) == 2
    assert (query.emit, query.limit) == ("FINAL", 7)


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("TUMBLING (SIZE 3 SECONDS)", st.Window("TUMBLING", st.Duration(3000))),
        ("w SESSION (1 DAY)", st.Window("SESSION", st.Duration(86_400_000))),
    ],
)
def test_windows(clause: str, window: st.Window) -> None:
    statement = parsed(f"SELECT a FROM s WINDOW {clause} GROUP BY a EMIT CHANGES")
    assert isinstance(statement, st.Select)
    assert statement.window == window


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("DROP STREAM IF EXISTS s DELETE TOPIC", st.DropSource("STREAM", "S", True, True)),
        (
            "ALTER TABLE t ADD COLUMN a INT",
            st.AddColumns("TABLE", "T", (st.Column("A", SqlType("INT")),)),
        ),
        ("CREATE TYPE IF NOT EXISTS p AS STRUCT<>", st.CreateType("P", SqlType("STRUCT"), True)),
        ("DROP TYPE IF EXISTS p", st.DropType("P", True)),
        ("ASSERT TOPIC aB", st.AssertTopic("aB")),
        (
            "ASSERT NOT EXISTS TOPIC 'a-b' WITH (partitions=3, 'replicas'='1') TIMEOUT 2 SECONDS",
            st.AssertTopic(
                "a-b", {"PARTITIONS": 3, "REPLICAS": "1"}, st.Duration(2000), exists=False
            ),
        ),
        ("assert schema subject `c-value`", st.AssertSchema("c-value", None)),
        ("ASSERT NOT EXISTS SCHEMA ID 7", st.AssertSchema(None, 7, exists=False)),
        (
            "ASSERT SCHEMA SUBJECT 'c' ID 7 TIMEOUT 1 MINUTE",
            st.AssertSchema("c", 7, st.Duration(60_000)),
        ),
        ("PAUSE q1", st.QueryControl("PAUSE", "Q1")),
        ("RESUME ALL", st.QueryControl("RESUME", None)),
        ("TERMINATE `q`", st.QueryControl("TERMINATE", "q")),
        ("SHOW ALL TOPICS EXTENDED", st.Show("TOPICS", True, True)),
        ("list variables", st.Show("VARIABLES")),
        (
            "CREATE SOURCE CONNECTOR IF NOT EXISTS c WITH ('a.B'='x''y', \"t\"=-1, e=TRUE, n=NULL)",
            st.CreateConnector(
                "SOURCE", "C", {"a.B": "x'y", "t": "-1", "E": "true", "N": None}, True
            ),
        ),
        ("CREATE SINK CONNECTOR `c` WITH (a=1.5)", st.CreateConnector("SINK", "c", {"A": "1.5"})),
        ("DROP CONNECTOR IF EXISTS c", st.DropConnector("C", True)),
        ("SHOW CONNECTORS", st.ShowConnectors()),
        ("LIST SINK CONNECTORS", st.ShowConnectors("SINK")),
        ("SHOW CONNECTOR PLUGINS", st.ShowConnectorPlugins()),
        ("DESCRIBE CONNECTOR `c`", st.DescribeConnector("c")),
        ("DESCRIBE connector", st.Describe("SOURCE", "CONNECTOR")),
        ("DESCRIBE s EXTENDED", st.Describe("SOURCE", "S", True)),
        ("DESCRIBE FUNCTION abs", st.Describe("FUNCTION", "ABS")),
        ("DESCRIBE TABLES", st.Describe("TABLES", None)),
        ("EXPLAIN q", st.Explain("Q", None)),
        ("EXPLAIN DROP TYPE p", st.Explain(None, st.DropType("P"))),
        ("SET 'a.b'='c'", st.SetProperty("a.b", "c")),
        ("UNSET 'a.b'", st.SetProperty("a.b", None)),
        ("DEFINE v = 'x'", st.DefineVariable("V", "x")),
        ("UNDEFINE v", st.DefineVariable("V", None)),
        ("RUN SCRIPT './a.sql'", st.RunScript("./a.sql")),
        ("PRINT my_topic FROM BEGINNING INTERVAL 2 LIMIT 3", st.PrintTopic("my_topic", True, 2, 3)),
        ("PRINT 'my-topic'", st.PrintTopic("my-topic")),
        ("INSERT INTO s VALUES ()", st.InsertValues("S", (), ())),
    ],
)
def test_short_statements(text: str, statement: st.Statement) -> None:
    assert parsed(text) == statement


def test_insert_has_a_row_or_a_query() -> None:
    row = parsed("INSERT INTO s (a, `b`) VALUES ('it''s', -1);")
    assert isinstance(row, st.InsertValues)
    assert row.columns == ("A", "b")
    assert row.values == (exp.Literal.string("it's"), exp.Neg(this=exp.Literal.number(1)))
    query = parsed("INSERT INTO s WITH (query_id='q') SELECT * FROM t;")
    assert isinstance(query, st.InsertSelect)
    assert query.properties == {"QUERY_ID": "q"}
    assert query.query.items == (st.SelectItem(exp.Star()),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELEKT * FROM s",
            "line 1:1: Expected a statement but found 'SELEKT'; did you mean SELECT?",
        ),
        ("SELECT a\nFROM", "line 2:5: Expected a stream or table at the end of the statement"),
        (
            "CREATE STEAM s (a INT)",
            "line 1:8: Expected STREAM or TABLE but found 'STEAM'; did you mean STREAM?",
        ),
        (
            "SHOW TABELS",
            "line 1:6: Expected one of STREAMS, TABLES, TOPICS, QUERIES, FUNCTIONS, "
            "PROPERTIES, TYPES, VARIABLES, CONNECTORS but found 'TABELS'; did you mean TABLES?",
        ),
        (
            "SELECT a FROM s WINDOW TUMBLING (SIZE 1 HUOR) GROUP BY a",
            "line 1:41: Expected a unit of time such as SECONDS but found 'HUOR'"
            "; did you mean HOURS?",
        ),
        (
            "SELECT a FROM s WINDOW HOPING (SIZE 1 HOUR)",
            "line 1:24: Expected TUMBLING, HOPPING or SESSION but found 'HOPING'"
            "; did you mean HOPPING?",
        ),
        (
            "CREATE STREAM s (from INT)",
            "line 1:18: Expected a column, but from is a reserved word: write `from`",
        ),
        ("SELECT a FROM s LIMIT 1 2", "line 1:25: Expected the end of the statement but found '2'"),
        ("SELECT (SELECT a FROM s) FROM t", "line 1:9: Expected an expression but found 'SELECT'"),
        ("SELECT MAP<INT>(1) x, CAST(a AS MAP<INT>) FROM t", "line 1:41: MAP takes 2 types, not 1"),
        ("SELECT a FROM s EMIT LATER", "line 1:22: Expected FINAL but found 'LATER'"),
        ("SET 'a'=b", "line 1:9: Expected a value in single quotes but found 'b'"),
        (
            "CREATE STREAM s WITH (kafka_topic=t)",
            "line 1:35: Expected a string, number or boolean for KAFKA_TOPIC but found 't'",
        ),
        ("INSERT INTO s (a) SELECT b FROM t", "line 1:19: Expected VALUES but found 'SELECT'"),
        ("SELECT CASE a END FROM t", "line 1:15: Expected WHEN but found 'END'"),
        (
            "ASSERT TOPC a",
            "line 1:8: Expected TOPIC or SCHEMA but found 'TOPC'; did you mean TOPIC?",
        ),
        ("ASSERT SCHEMA TIMEOUT 1 DAY", "line 1:15: Expected SUBJECT or ID but found 'TIMEOUT'"),
        (
            "ASSERT SCHEMA ID 'a'",
            "line 1:18: Expected a schema's ID as a whole number but found 'a'",
        ),
        ("ASSERT TOPIC ''", "line 1:14: Expected a topic, and not an empty name"),
        ("ASSERT SCHEMA SUBJECT", "line 1:22: Expected a subject at the end of the statement"),
        ("ASSERT TOPIC a TIMEOUT 25 DAYS", "line 1:24: TIMEOUT is at most 2147483647 MILLISECONDS"),
        ("SELECT 'a FROM t", "line 1:8: A string, a quoted name or a comment has no end"),
    ],
)
def test_error_names_place_and_nearest_word(text: str, message: str) -> None:
    assert failure(text) == message
