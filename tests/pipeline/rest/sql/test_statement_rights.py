"""The topics that a statement reads and writes, by the sources of its catalog."""

import pytest

from barnabas.pipeline.rest.sql.statement_rights import Topics, topics_of
from barnabas.pipeline.sql.analysis.applied_statements import Definition, applied
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.scripts import parse_script

SOURCES = """
CREATE STREAM clicks (id STRING KEY, ms BIGINT) WITH (kafka_topic='c', value_format='JSON');
CREATE TABLE users (id STRING PRIMARY KEY, n STRING) WITH (kafka_topic='u', value_format='JSON');
CREATE STREAM slow WITH (kafka_topic='s') AS SELECT * FROM clicks WHERE ms > 1;
"""


def catalog() -> Catalog:
    found = Catalog()
    for statement in parse_script(SOURCES):
        assert isinstance(statement, Definition)
        found = applied(statement, found, Defaults("KAFKA", "JSON")).catalog
    return found


@pytest.mark.parametrize(
    ("text", "read", "written"),
    [
        ("SELECT * FROM clicks", ("c",), ()),
        ("SELECT * FROM clicks c JOIN users u ON c.id = u.id EMIT CHANGES", ("c", "u"), ()),
        ("PRINT 'c'", ("c",), ()),
        ("SHOW STREAMS", (), ()),
        ("ASSERT TOPIC c", (), ()),
        ("EXPLAIN SELECT * FROM users", ("u",), ()),
        ("CREATE STREAM x (a INT) WITH (kafka_topic='x', value_format='JSON')", ("x",), ()),
        (
            "CREATE STREAM x (a INT) WITH (kafka_topic='x', value_format='JSON', partitions=1)",
            ("x",),
            ("x",),
        ),
        ("CREATE STREAM x AS SELECT * FROM clicks", ("c",), ("X",)),
        ("CREATE STREAM x WITH (kafka_topic='y') AS SELECT * FROM clicks", ("c",), ("y",)),
        ("INSERT INTO slow SELECT * FROM clicks", ("c",), ("s",)),
        ("INSERT INTO clicks VALUES ('a', 1)", (), ("c",)),
        ("DROP STREAM slow DELETE TOPIC", (), ("s",)),
        ("ALTER STREAM clicks ADD COLUMN a INT", (), ("c",)),
        ("TERMINATE CSAS_SLOW_0", (), ("s",)),
        ("TERMINATE ALL", (), ("*",)),
        ("CREATE TYPE t AS INT", (), ()),
        ("SELECT * FROM nothing", (), ()),
    ],
)
def test_topics_of_a_statement(text: str, read: tuple[str, ...], written: tuple[str, ...]) -> None:
    (statement,) = parse_script(text)
    assert topics_of(statement, catalog()) == Topics(read, written)
