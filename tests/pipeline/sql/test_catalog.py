"""The catalog: what statements make of it, and what they may not."""

from dataclasses import replace

import pytest

from barnabas.pipeline.sql.analysis.applied_statements import Definition, applied
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.catalog.source_values import (
    Format,
    SourceColumn,
    SourceWindow,
    Timestamp,
)
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError
from barnabas.pipeline.sql.sql_types import INTEGER, STRING


def catalog_of(script: str, defaults: Defaults | None = None) -> Catalog:
    catalog = Catalog()
    for statement in parse_script(script):
        assert isinstance(statement, Definition)
        catalog = applied(statement, catalog, defaults or Defaults()).catalog
    return catalog


CLICKS = """
CREATE STREAM clicks (id INT KEY, url VARCHAR, at BIGINT)
    WITH (kafka_topic='clicks', value_format='JSON');
"""
USERS = """
CREATE TABLE users (id INT PRIMARY KEY, name STRING)
    WITH (kafka_topic='users', value_format='JSON');
"""


def test_stream_has_its_topic_columns_and_formats() -> None:
    source = catalog_of(CLICKS).source("CLICKS")
    assert source.schema == "`ID` INTEGER KEY, `URL` STRING, `AT` BIGINT"
    assert (source.topic, source.key_format.name) == ("clicks", "KAFKA")
    assert source.value_format == Format("JSON")


def test_properties_become_formats_windows_and_timestamps() -> None:
    source = catalog_of(
        "CREATE TABLE t (k STRING PRIMARY KEY, v STRING) WITH (kafka_topic='t', key_format='json', "
        "value_format='delimited', value_delimiter='TAB', window_type='hopping', "
        "window_size='2 minutes', timestamp='v', timestamp_format='yyyy', partitions=3);"
    ).source("T")
    assert source.key_format == Format("JSON", is_wrapped=False)
    assert source.value_format == Format("DELIMITED", "\t")
    assert source.window == SourceWindow("HOPPING", 120_000)
    assert source.timestamp == Timestamp("V", "yyyy")
    assert source.partitions == 3


def test_types_of_create_type_are_known_until_they_are_dropped() -> None:
    script = "CREATE TYPE point AS STRUCT<x INT, y INT>;"
    source = "CREATE STREAM s (p point) WITH (kafka_topic='s', value_format='JSON');"
    found = catalog_of(script + source).source("S")
    assert str(found.value[0].type) == "STRUCT<`X` INTEGER, `Y` INTEGER>"
    with pytest.raises(SqlError, match="The type POINT is not known"):
        catalog_of(f"{script} DROP TYPE point; {source}")


def test_query_that_made_a_source_is_dropped_with_it() -> None:
    script = f"{CLICKS} CREATE STREAM urls AS SELECT id, url FROM clicks;"
    catalog = catalog_of(script)
    (query,) = catalog.queries
    assert (query.name, query.sink, query.reads) == ("CSAS_URLS_0", "URLS", ("CLICKS",))
    assert catalog.source("URLS").value_format.name == "JSON"
    assert catalog_of(f"{script} DROP STREAM urls;") == replace(catalog_of(CLICKS), started=1)


def test_columns_are_added() -> None:
    source = catalog_of(f"{CLICKS} ALTER STREAM clicks ADD COLUMN agent STRING;").source("CLICKS")
    assert source.schema.endswith("`AT` BIGINT, `AGENT` STRING")


def test_session_defaults_fill_what_a_statement_leaves_out() -> None:
    defaults = Defaults("JSON", "DELIMITED", topic_prefix="p-")
    script = "CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s');"
    catalog = catalog_of(f"{script} CREATE STREAM o AS SELECT * FROM s;", defaults)
    source = catalog.source("O")
    assert (source.key_format.name, source.value_format.name) == ("JSON", "DELIMITED")
    assert source.topic == "p-O"


class _OneSchema:
    """A registry with one schema for each side of all topics."""

    def columns(self, topic: str, side: str, form: Format) -> tuple[SourceColumn, ...]:
        name = "ROWKEY" if side == "key" else f"V{form.schema_id or ''}"
        return (SourceColumn(name, INTEGER), SourceColumn("MORE", STRING))


WITH_SCHEMAS = Defaults(schemas=_OneSchema())


def test_columns_that_are_left_out_are_those_of_the_registry() -> None:
    script = "CREATE TABLE t (k STRING PRIMARY KEY) WITH (kafka_topic='t', value_format='AVRO');"
    source = catalog_of(script, WITH_SCHEMAS).source("T")
    assert source.schema == "`K` STRING PRIMARY KEY, `V` INTEGER, `MORE` STRING"
    script = "CREATE STREAM s WITH (kafka_topic='s', format='PROTOBUF', value_schema_id=7);"
    source = catalog_of(script, WITH_SCHEMAS).source("S")
    assert source.schema == "`ROWKEY` INTEGER KEY, `MORE` STRING KEY, `V7` INTEGER, `MORE` STRING"


@pytest.mark.parametrize(
    ("items", "is_right"), [("v7", True), ("v7, more", True), ("more, v7", False), ("url", False)]
)
def test_result_with_a_schema_id_has_the_first_columns_of_the_schema(
    items: str, is_right: bool
) -> None:
    script = (
        "CREATE STREAM a (v7 INT, more STRING, url STRING) WITH (kafka_topic='a', format='JSON');"
        "CREATE STREAM b WITH (value_format='AVRO', value_schema_id=7) AS "
        f"SELECT {items} FROM a;"
    )
    if is_right:
        assert catalog_of(script, WITH_SCHEMAS).source("B").value_format.schema_id == 7
    else:
        with pytest.raises(SqlError, match="are not those of the schema with the id 7"):
            catalog_of(script, WITH_SCHEMAS)


REFUSED = [
    (f"{CLICKS}{CLICKS}", "There is a stream CLICKS already"),
    ("DROP STREAM x;", "There is no stream or table X; CREATE STREAM"),
    (f"{CLICKS} DROP STREAM click;", "did you mean CLICKS"),
    (f"{CLICKS} DROP TABLE clicks;", "CLICKS is a stream: write DROP STREAM"),
    (
        f"{CLICKS} CREATE STREAM u AS SELECT * FROM clicks; DROP STREAM clicks;",
        "CLICKS is read by CSAS_U_0: DROP U first",
    ),
    (
        f"{CLICKS} CREATE STREAM u AS SELECT * FROM clicks; INSERT INTO u SELECT * FROM clicks; "
        "DROP STREAM u;",
        "U is written by CSAS_U_0, INSERTQUERY_U_1",
    ),
    ("CREATE STREAM s (a INT) WITH (value_format='JSON');", "KAFKA_TOPIC is missing"),
    ("CREATE STREAM s (a INT) WITH (kafka_topic='s');", "VALUE_FORMAT is missing"),
    ("CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='JSN');", "mean JSON"),
    ("CREATE STREAM s (a INT) WITH (kafka_topic='s', form='JSON');", "FORM is not known"),
    ("CREATE TABLE t (a INT) WITH (kafka_topic='t', value_format='JSON');", "needs a key"),
    ("CREATE TABLE t (a INT KEY) WITH (kafka_topic='t', value_format='JSON');", "PRIMARY KEY"),
    ("CREATE STREAM s (a INT, a INT) WITH (kafka_topic='s', format='JSON');", "A is there twice"),
    ("CREATE STREAM s (rowtime INT) WITH (kafka_topic='s', format='JSON');", "reserved"),
    ("CREATE STREAM s (a INT, b INT) WITH (kafka_topic='s', value_format='KAFKA');", "one column"),
    (
        "CREATE STREAM s (a ARRAY<INT>) WITH (kafka_topic='s', value_format='DELIMITED');",
        "does not take the type ARRAY<INTEGER>",
    ),
    (
        "CREATE STREAM s (k MAP<STRING, INT> KEY, a INT) WITH (kafka_topic='s', format='JSON');",
        "no fixed order",
    ),
    (
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', format='JSON', value_format='JSON');",
        "write it alone",
    ),
    (
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', format='JSON', timestamp='b');",
        "TIMESTAMP names the column B",
    ),
    (
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', format='DELIMITED', value_delimiter='::');",
        "one character",
    ),
    (
        "CREATE STREAM s (a INT, b INT) WITH (kafka_topic='s', format='JSON', "
        "wrap_single_value=true);",
        "a value of one column",
    ),
    (
        "CREATE STREAM s (k INT KEY, a INT) WITH (kafka_topic='s', format='JSON', "
        "window_type='TUMBLING');",
        "needs a WINDOW_SIZE",
    ),
    (f"{USERS} CREATE STREAM users (a INT) WITH (kafka_topic='x', format='JSON');", "a table"),
    (
        "CREATE OR REPLACE SOURCE STREAM s (a INT) WITH (kafka_topic='s', format='JSON');",
        "S is a SOURCE, which is not replaced",
    ),
    (
        "CREATE STREAM s WITH (kafka_topic='s', value_format='AVRO');",
        "no schema registry is known",
    ),
    (
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='AVRO', value_schema_id=1);",
        "VALUE_SCHEMA_ID names the columns of the value",
    ),
    (
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='JSON', "
        "value_protobuf_nullable_representation='OPTIONAL');",
        "is for Protobuf, and not for JSON",
    ),
    (
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='PROTOBUF', "
        "value_protobuf_nullable_representation='SOMETIMES');",
        "is OPTIONAL or WRAPPER, and not 'SOMETIMES'",
    ),
    (
        f"{CLICKS} CREATE STREAM u WITH (key_format='JSON') AS SELECT url FROM clicks "
        "PARTITION BY NULL;",
        "the result has no key",
    ),
    ("CREATE TYPE a AS INT; CREATE TYPE a AS INT;", "There is a type A already"),
    (f"{CLICKS} ALTER STREAM clicks ADD COLUMN url INT;", "There is a column URL already"),
    (
        "CREATE SOURCE STREAM s (a INT) WITH (kafka_topic='s', format='JSON'); "
        "DROP STREAM s DELETE TOPIC;",
        "leave DELETE TOPIC out",
    ),
]


@pytest.mark.parametrize(("script", "message"), REFUSED, ids=range(len(REFUSED)))
def test_statement_that_the_catalog_refuses(script: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        catalog_of(script)
    assert message in str(error.value)


def test_error_names_the_place_of_the_name() -> None:
    with pytest.raises(SqlError, match="line 1:21: There is no stream or table"):
        catalog_of("DROP STREAM \n       nothing;".replace("\n", " "))
