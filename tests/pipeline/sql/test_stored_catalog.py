"""The stored catalog: its codec, its replay, and records that cannot be read."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some

pytest.importorskip("sqlglot")

from barnabas.pipeline.sql.analysis.applied_statements import Definition
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog, PersistentQuery, Replacement
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.catalog.source_values import (
    Format,
    HeaderColumn,
    Source,
    SourceColumn,
    SourceWindow,
    Timestamp,
)
from barnabas.pipeline.sql.scripts import StatementText, parse_statement
from barnabas.pipeline.sql.shell.catalog_change import CatalogChange
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.sql_types import SqlType, array, decimal, map_of, struct
from barnabas.pipeline.sql.stored.catalog_records import CatalogReplay, KeyValue, changes
from barnabas.pipeline.sql.stored.object_codec import (
    VERSION,
    Definitions,
    UnreadableObjectError,
    definitions_json,
    query_json,
    read_definitions,
    read_query,
    read_source,
    read_type,
    source_json,
    type_json,
)

NAMES = some.text(min_size=1, max_size=6)
TYPES = some.recursive(
    some.sampled_from(["BOOLEAN", "INTEGER", "STRING", "TIMESTAMP"]).map(SqlType)
    | some.tuples(some.integers(1, 38), some.integers(0, 38)).map(lambda each: decimal(*each)),
    lambda inner: (
        inner.map(array)
        | some.tuples(inner, inner).map(lambda each: map_of(*each))
        | some.lists(some.tuples(NAMES, inner), max_size=3).map(struct)
    ),
    max_leaves=6,
)
COLUMNS = some.lists(some.builds(SourceColumn, NAMES, TYPES), max_size=3).map(tuple)
COUNTS = some.none() | some.integers(0, 2**31)
FORMATS = some.builds(Format, NAMES, NAMES, some.booleans(), COUNTS, some.none() | NAMES)
SOURCES = some.builds(
    Source,
    some.sampled_from(["STREAM", "TABLE"]),
    NAMES,
    NAMES,
    COLUMNS,
    COLUMNS,
    FORMATS,
    FORMATS,
    some.lists(some.builds(HeaderColumn, NAMES, TYPES, some.none() | NAMES), max_size=2).map(tuple),
    some.none()
    | some.builds(SourceWindow, some.sampled_from(["TUMBLING", "HOPPING", "SESSION"]), COUNTS),
    some.none() | some.builds(Timestamp, NAMES, some.none() | NAMES),
    COUNTS,
    COUNTS,
    some.booleans(),
)
REPLACEMENTS = some.builds(
    Replacement, NAMES, SOURCES, some.sampled_from(["BUILDING", "SWAPPING", "REMOVING"])
)
QUERIES = some.builds(
    PersistentQuery,
    NAMES,
    NAMES,
    some.lists(NAMES, max_size=3).map(tuple),
    NAMES,
    some.none() | REPLACEMENTS,
)


def through_json(found: object) -> object:
    return json.loads(json.dumps(found))


@given(TYPES)
def test_type_is_read_as_it_was_written(kind: SqlType) -> None:
    assert read_type(through_json(type_json(kind))) == kind


@given(SOURCES)
def test_source_is_read_as_it_was_written(source: Source) -> None:
    assert read_source(through_json(source_json(source))) == source


@given(QUERIES)
def test_query_is_read_as_it_was_written(query: PersistentQuery) -> None:
    assert read_query(through_json(query_json(query))) == query


def test_query_of_an_unknown_phase_is_refused() -> None:
    sink = {"kind": "TABLE", "name": "T", "topic": "T", "key_format": {"name": "KAFKA"}}
    sink["value_format"] = {"name": "JSON"}
    replacement = {"query": "CTAS_T_0", "sink": sink, "phase": "LATER"}
    found = {"name": "CTAS_T_1", "sink": "T", "reads": [], "text": "", "replacement": replacement}
    with pytest.raises(UnreadableObjectError, match="the phase LATER is unknown"):
        read_query(found)


@given(some.lists(SOURCES, max_size=2), some.dictionaries(NAMES, TYPES, max_size=2))
def test_definitions_are_read_as_they_were_written(
    sources: list[Source], types: dict[str, SqlType]
) -> None:
    given = Definitions({each.name: each for each in sources}, types)
    assert read_definitions(through_json(definitions_json(given))) == given


def test_definitions_of_a_later_version_are_refused() -> None:
    later = {**definitions_json(Definitions({}, {})), "version": VERSION + 1}
    with pytest.raises(UnreadableObjectError, match=f"has version {VERSION + 1}, and this version"):
        read_definitions(later)


SOURCE_NAMES = ("A", "B", "C")
TEMPLATES = (
    "CREATE STREAM {0} (k INT KEY, v INT) WITH (kafka_topic='{0}', value_format='JSON')",
    "CREATE TABLE {0} (k INT PRIMARY KEY, v INT) WITH (kafka_topic='{0}', value_format='JSON')",
    "CREATE OR REPLACE STREAM {0} (k INT KEY, v INT, w INT)"
    " WITH (kafka_topic='{0}', value_format='JSON')",
    "CREATE STREAM {0} AS SELECT k, v FROM {1}",
    "CREATE OR REPLACE STREAM {0} AS SELECT k, v FROM {1} WHERE v > 1",
    "CREATE TABLE {0} AS SELECT k, COUNT(*) AS n FROM {1} GROUP BY k",
    "CREATE OR REPLACE TABLE {0} AS SELECT k, COUNT(*) AS n, 1 AS m FROM {1} GROUP BY k",
    "INSERT INTO {0} SELECT k, v FROM {1}",
    "ALTER STREAM {0} ADD COLUMN more STRING",
    "DROP STREAM {0}",
    "DROP TABLE IF EXISTS {0}",
    "CREATE TYPE {0} AS STRUCT<a INT, b ARRAY<STRING>>",
    "CREATE TYPE IF NOT EXISTS {0} AS INT",
    "DROP TYPE IF EXISTS {0}",
    "TERMINATE ALL",
    "TERMINATE CSAS_{0}_0",
    "TERMINATE INSERTQUERY_{0}_1",
)
STATEMENTS = some.lists(
    some.builds(
        str.format,
        some.sampled_from(TEMPLATES),
        some.sampled_from(SOURCE_NAMES),
        some.sampled_from(SOURCE_NAMES),
    ),
    max_size=12,
)


def after(text: str, catalog: Catalog) -> Catalog:
    """Return the catalog behind a statement; a refused one changes nothing."""
    statement = parse_statement(StatementText(text, 1, 1), {})
    assert isinstance(statement, Definition)
    change = CatalogChange(statement, text, Defaults(), "earliest")
    try:
        return change.applied_to(catalog).catalog
    except (SqlError, UnresolvedError):
        return catalog


def replayed(records: Sequence[KeyValue]) -> Catalog:
    replay = CatalogReplay()
    for offset, (key, value) in enumerate(records):
        replay.apply(key, value, f"offset {offset}")
    assert replay.problem is None
    return replay.catalog


@given(STATEMENTS, some.data())
def test_replay_gives_the_catalog_of_the_statements(
    texts: list[str], data: some.DataObject
) -> None:
    catalog = Catalog()
    records: list[KeyValue] = []
    for text in texts:
        changed = after(text, catalog)
        records += changes(catalog, changed)
        catalog = changed
        assert replayed(records) == catalog
    cut = data.draw(some.integers(0, len(records)))
    newest = {key: offset for offset, (key, _) in enumerate(records)}
    compacted = [
        (key, value)
        for offset, (key, value) in enumerate(records)
        if offset >= cut or newest[key] == offset
    ]
    assert replayed(compacted) == catalog
    without_tombstones = [
        (key, value)
        for offset, (key, value) in enumerate(records)
        if newest[key] == offset and value is not None
    ]
    assert replayed(without_tombstones) == catalog


def stored() -> list[KeyValue]:
    catalog = after(TEMPLATES[0].format("A", "A"), Catalog())
    return changes(Catalog(), catalog)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff", "can't decode"),
        (b"[]", "it is not an object of JSON"),
        (b"{}", "it has no version"),
        (b'{"version": 2}', "it has version 2, and this version of barnabas reads up to 1"),
        (b'{"version": 1, "kind": "STREAM"}', "name is None, and not a text"),
    ],
)
def test_record_that_cannot_be_read_is_named_until_it_is_replaced(
    value: bytes, reason: str
) -> None:
    ((key, good),) = stored()
    replay = CatalogReplay()
    replay.apply(key, good, "offset 0 of topic t")
    replay.apply(key, value, "offset 1 of topic t")
    assert replay.problem is not None
    assert replay.problem.startswith(f"the record {key.decode()} at offset 1 of topic t cannot be")
    assert reason in replay.problem
    replay.apply(key, None, "offset 2 of topic t")
    assert replay.problem is None
    assert replay.catalog == Catalog()


def test_kind_of_a_later_version_is_named() -> None:
    replay = CatalogReplay()
    replay.apply(b'{"kind":"index","name":"I"}', b'{"version":1}', "offset 0 of topic t")
    assert replay.problem is not None
    assert "the kind index is unknown" in replay.problem


def test_fields_that_a_reader_does_not_know_are_ignored() -> None:
    ((key, value),) = stored()
    assert value is not None
    later = {**json.loads(value), "comment": "x"}
    assert replayed([(key, json.dumps(later).encode())]) == replayed(stored())
