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


def install(folder: Path, name: str, text: str, entries: dict[str, dict[str, str]]) -> Path:
    """Write a module and what a package of it has; return the module."""
    module = folder / f"{name}.py"
    module.write_text(text)
    (info := folder / f"{name}-1.0.dist-info").mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{each} = {target}" for each, target in entries["barnabas.sql_functions"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[barnabas.sql_functions]", *lines]))
    return module


def test_function_of_the_page_runs_and_its_failures_are_null(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = tomllib.loads(block("toml", "sql_functions"))["project"]["entry-points"]
    module = install(tmp_path, "my_functions", block("python", "@scalar"), entries)
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


def test_times_that_python_does_not_have_are_null_in_functions(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
from barnabas.sql_functions import scalar

@scalar("TIMESTAMP", "DATE", returns="STRING")
def shown(at, day):
    return f"{at:%Y}" if at else f"{day}"
"""
    entries = {"barnabas.sql_functions": {"SHOWN": "shown_times:shown"}}
    module = install(tmp_path, "shown_times", text, entries)
    monkeypatch.syspath_prepend(str(tmp_path))
    engine.session.sparkContext.addPyFile(str(module))
    query = """
    CREATE STREAM far (at TIMESTAMP, day DATE) WITH (kafka_topic='far', value_format='JSON');
    CREATE STREAM out AS SELECT SHOWN(at, day) AS text FROM far;
    """
    with driver_of(engine, query) as driver:
        for at, day in ((300_000_000_000_000, 100_000_000), (5, -100_000_000), (None, 1)):
            driver.pipe("far", ks.TestRecord(None, json.dumps({"at": at, "day": day}).encode()))
        found = [json.loads(each.value or b"")["TEXT"] for each in driver.read("OUT")]
        assert found == ["None", "1970", "1970-01-02"]
