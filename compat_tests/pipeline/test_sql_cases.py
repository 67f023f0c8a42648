"""The tool that runs ksqlDB's cases, by cases of this project in the same form."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat_tests import spark as setup
from compat_tests.sql_case_files import cases_of
from compat_tests.sql_case_session import CaseEngine
from compat_tests.sql_cases import checks_of, run
from tests.registry.live_registry import live_registry

COMPILES = True
pytestmark = [setup.needed, pytest.mark.timeout(600), pytest.mark.barnabas_only]

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "item", "type": "string"}, {"name": "n", "type": ["null", "long"]}],
}


def record(topic: str, key: Any, value: Any, **rest: Any) -> dict[str, Any]:
    return {"topic": topic, "key": key, "value": value, **rest}


CASES = [
    {
        "name": "columns of the registry",
        "statements": [
            "CREATE STREAM orders WITH (kafka_topic='orders', value_format='AVRO');",
            "CREATE STREAM big WITH (value_format='JSON') AS SELECT item FROM orders WHERE n > 1;",
        ],
        "topics": [{"name": "orders", "valueSchema": ORDER, "valueFormat": "AVRO"}],
        "inputs": [
            record("orders", None, {"item": "pen", "n": 2}, timestamp=5),
            record("orders", None, {"item": "ink", "n": None}),
        ],
        "outputs": [record("BIG", None, {"ITEM": "pen"}, timestamp=5)],
    },
    {
        "name": "windows",
        "format": ["PROTOBUF_NOSR"],
        "statements": [
            "CREATE STREAM s (k STRING KEY, n INT) "
            "WITH (kafka_topic='s', value_format='{FORMAT}');",
            "CREATE TABLE t AS SELECT k, SUM(n) AS n FROM s "
            "WINDOW TUMBLING (SIZE 10 MILLISECONDS) GROUP BY k;",
        ],
        "inputs": [
            record("s", "a", {"N": 1}, timestamp=1),
            record("s", "a", {"N": 2}, timestamp=12),
            record("s", "a", {"N": 4}, timestamp=9),
        ],
        "outputs": [
            record("T", "a", {"N": 5}, window={"start": 0, "end": 10, "type": "time"}),
            record("T", "a", {"N": 2}, window={"start": 10, "end": 20, "type": "time"}),
        ],
    },
    {
        "name": "inserted row",
        "statements": [
            "CREATE STREAM s (k INT KEY, v STRING) WITH (kafka_topic='s', format='JSON');",
            "INSERT INTO s (k, v, rowtime) VALUES (1, 'x', 7);",
        ],
        "outputs": [record("s", 1, {"V": "x"}, timestamp=7)],
    },
    {
        "name": "inserted struct without fields",
        "statements": [
            "CREATE STREAM s (k INT KEY, v STRUCT<a INT>) WITH (kafka_topic='s', format='JSON');",
            "INSERT INTO s (k, v) VALUES (1, STRUCT());",
        ],
        "outputs": [record("s", 1, {"V": {"A": None}})],
    },
    {
        "name": "error",
        "statements": ["CREATE STREAM s (a INT) WITH (kafka_topic='s', format='JSN');"],
        "expectedException": {"message": "JSN"},
    },
    {
        "name": "other result",
        "statements": ["CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON');"],
        "inputs": [record("s", None, {"V": 1})],
        "outputs": [record("s", None, {"V": 2})],
    },
]


def test_cases_pass_or_are_named_with_the_difference(
    engine: Any, bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "own.json").write_text("// a comment\n" + json.dumps({"tests": CASES}))
    results = tmp_path / "results"
    cases = list(cases_of(tmp_path))
    with live_registry(bootstrap, unique("_schemas_of_cases")) as registry:
        for _ in range(2):
            run(cases, checks_of(CaseEngine(engine.session, registry), 1), results)
    found = [json.loads(line) for line in results.read_text().splitlines()]
    assert {each["case"]: each["reason"] for each in found} == {
        "own: columns of the registry": None,
        "own: windows [PROTOBUF_NOSR]": None,
        "own: inserted row": None,
        "own: inserted struct without fields": None,
        "own: error": None,
        "own: other result": "differs: the value is {'V': 1}, and not {'V': 2}",
    }
    assert len(found) == len(cases), "the second run has nothing to do"
