"""SELECT of a table's key: the look-ups, their rows, and the SELECTs that run on Spark instead."""

import json
import struct
from typing import Any

import pytest

pytest.importorskip("sqlglot")

from barnabas.pipeline.sql.analysis.applied_statements import Definition, applied
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.shell.key_lookups import KeyLookup, lookup_of
from barnabas.pipeline.sql.statement_values import Select
from barnabas.pipeline.views.live_view import ViewRow

SCRIPT = """
CREATE STREAM s (k INT KEY, url STRING, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE n AS SELECT k, COUNT(*) AS c, SUM(v) AS total FROM s GROUP BY k;
CREATE TABLE two WITH (format='JSON') AS
    SELECT k, url, COUNT(*) AS c FROM s GROUP BY k, url;
CREATE TABLE one WITH (value_format='KAFKA') AS SELECT url, COUNT(*) AS c FROM s GROUP BY url;
CREATE TABLE w AS
    SELECT url, COUNT(*) AS c FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY url;
CREATE TABLE declared (k INT PRIMARY KEY, c INT) WITH (kafka_topic='d', value_format='JSON');
CREATE TABLE avro WITH (value_format='AVRO') AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;
"""


def catalog() -> Catalog:
    found = Catalog()
    for each in parse_script(SCRIPT):
        assert isinstance(each, Definition)
        found = applied(each, found, Defaults()).catalog
    return found


KNOWN = catalog()


def lookup(text: str) -> KeyLookup | None:
    (statement,) = parse_script(text)
    assert isinstance(statement, Select)
    return lookup_of(statement, plan_of(statement, KNOWN, is_persistent=False), KNOWN)


def row(value: Any, window: tuple[int, int] | None = None) -> ViewRow:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return ViewRow(b"", data, 5, window)


def key_of(found: KeyLookup) -> bytes:
    (key,) = found.keys
    return found.key_bytes(key)


def result(found: KeyLookup, given: ViewRow) -> list[Any]:
    return found.result(found.keys[0], given)


def test_row_of_a_key_has_the_columns_of_the_select() -> None:
    found = lookup("SELECT total, k, rowtime FROM n WHERE k = -3;")
    assert found is not None
    assert key_of(found) == struct.pack(">i", -3)
    assert result(found, row({"C": 2, "TOTAL": None})) == [None, -3, 5]


def test_star_has_all_columns() -> None:
    found = lookup("SELECT * FROM n WHERE (k = 3);")
    assert found is not None
    assert result(found, row({"C": 2, "TOTAL": 7})) == [3, 2, 7]


def test_key_of_several_columns_is_an_object() -> None:
    found = lookup("SELECT c FROM two WHERE url = '/ü' AND k = 1;")
    assert found is not None
    assert key_of(found) == '{"K":1,"URL":"/ü"}'.encode()
    assert result(found, row({"C": 2})) == [2]


def test_value_of_one_column_is_a_number() -> None:
    found = lookup("SELECT c FROM one WHERE url = 'a';")
    assert found is not None
    assert key_of(found) == b"a"
    assert result(found, row(struct.pack(">q", 9))) == [9]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("SELECT * FROM n WHERE k IN (2, -1, 2);", [{"K": 2}, {"K": -1}]),
        (
            "SELECT * FROM w WHERE url IN ('a', 'b') AND WINDOWSTART > 5;",
            [{"URL": "a"}, {"URL": "b"}],
        ),
        (
            "SELECT c FROM two WHERE k IN (1, 2) AND url = 'a';",
            [{"K": 1, "URL": "a"}, {"K": 2, "URL": "a"}],
        ),
    ],
)
def test_several_values_are_several_keys(text: str, keys: list[dict[str, Any]]) -> None:
    found = lookup(text)
    assert found is not None
    assert list(found.keys) == keys


def test_thousand_keys_are_looked_up() -> None:
    for count, is_lookup in ((1_000, True), (1_001, False)):
        values = ", ".join(map(str, range(count)))
        assert (lookup(f"SELECT * FROM n WHERE k IN ({values});") is not None) is is_lookup


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("", (None, None)),
        ("AND WINDOWSTART = 5", (5, 5)),
        ("AND WINDOWSTART >= 5 AND WINDOWSTART < 9", (5, 8)),
        ("AND WINDOWSTART > 5 AND WINDOWSTART > 3 AND WINDOWSTART <= 9", (6, 9)),
    ],
)
def test_windows_have_bounds(condition: str, bounds: tuple[int | None, int | None]) -> None:
    found = lookup(f"SELECT windowstart, windowend, c FROM w WHERE url = 'a' {condition};")
    assert found is not None
    assert (found.from_ms, found.to_ms) == bounds
    assert result(found, row({"C": 1}, (10, 20))) == [10, 20, 1]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM n;",
        "SELECT * FROM n WHERE k = 1 EMIT CHANGES;",
        "SELECT * FROM n WHERE k > 1;",
        "SELECT * FROM n WHERE k = 1 AND c = 2;",
        "SELECT * FROM n WHERE k = 1 OR k = 2;",
        "SELECT * FROM n WHERE k = 1 AND k = 2;",
        "SELECT * FROM n WHERE k IN (1, 2) AND k = 2;",
        "SELECT * FROM n WHERE k IN (1, NULL);",
        "SELECT * FROM n WHERE k IN (1, 1 + 1);",
        "SELECT * FROM n WHERE NOT k IN (1, 2);",
        "SELECT * FROM one WHERE url IN ('a', 1);",
        "SELECT * FROM w WHERE url = 'a' AND WINDOWSTART IN (5, 6);",
        "SELECT * FROM n WHERE k = 1 + 0;",
        "SELECT c + 1 AS d FROM n WHERE k = 1;",
        "SELECT rowpartition FROM n WHERE k = 1;",
        "SELECT * FROM two WHERE k = 1;",
        "SELECT * FROM declared WHERE k = 1;",
        "SELECT * FROM avro WHERE k = 1;",
        "SELECT * FROM s WHERE k = 1;",
        "SELECT * FROM w WHERE url = 'a' AND WINDOWEND > 5;",
    ],
)
def test_other_selects_run_on_spark(text: str) -> None:
    assert lookup(text) is None
