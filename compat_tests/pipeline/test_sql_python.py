"""The function in Python of docs/sql.md, in a query on Spark."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from barnabas import streams as ks
from compat_tests import spark as setup
from compat_tests.pipeline.test_sql_queries import driver_of

pytestmark = [setup.needed, pytest.mark.timeout(600)]

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()


def block(language: str, part: str) -> str:
    """Return the page's block of a language that has a text."""
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (text,) = [each for each in found if part in each]
    return text


def test_function_of_the_page_runs_and_its_failures_are_null(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "my_functions.py"
    module.write_text(block("python", "@scalar"))
    entries = tomllib.loads(block("toml", "sql_functions"))["project"]["entry-points"]
    (info := tmp_path / "my_functions-1.0.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-functions\nVersion: 1.0\n")
    lines = [f"{name} = {each}" for name, each in entries["barnabas.sql_functions"].items()]
    text = "\n".join(["[barnabas.sql_functions]", *lines])
    (info / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    engine.session.sparkContext.addPyFile(str(module))
    source = """
    CREATE STREAM users_changed (id STRING KEY, address STRING)
        WITH (kafka_topic='users', value_format='JSON');
    """
    query = block("sql", "DOMAIN(")
    # Also as the argument and as the key of an aggregate.
    count = """
    CREATE TABLE per_domain AS SELECT DOMAIN(address) AS d, COUNT(DOMAIN(address)) AS n
        FROM users_changed GROUP BY DOMAIN(address);
    """
    with driver_of(engine, source + query + count) as driver:
        addresses = ("ann@here.org", "without", None, "bob@here.org")
        records = [
            ks.TestRecord(b"k", json.dumps({"address": each}).encode()) for each in addresses
        ]
        driver.pipe("users", *records)
        found = [json.loads(each.value or b"") for each in driver.read("DOMAINS")]
        assert [each["DOMAIN"] for each in found] == ["here.org", None, None, "here.org"]
        (row,) = driver.read("PER_DOMAIN")
        assert (row.key, json.loads(row.value or b"")) == (b"here.org", {"N": 2})
