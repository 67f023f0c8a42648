"""Streams and tables of SQL in an app and in PySpark, and an app's topic as a source of SQL."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas import sql
from barnabas import streams as ks
from barnabas.pipeline.sql.analysis.applied_statements import Definition, applied
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.stored.catalog_records import changes
from compat_tests import spark as setup
from compat_tests.pace import WAIT_S
from compat_tests.pipeline.killed_job import create_topics, read_committed
from compat_tests.pipeline.test_sql_python import block
from compat_tests.servers import BarnabasProcess

pytestmark = [setup.needed, pytest.mark.barnabas_only, pytest.mark.timeout(600)]

SOURCES = """
CREATE STREAM slow (id STRING KEY, url STRING, ms BIGINT)
    WITH (kafka_topic='SLOW', value_format='JSON');
CREATE TABLE per_url (url STRING PRIMARY KEY, n BIGINT)
    WITH (kafka_topic='PER_URL', value_format='JSON');
"""


class Cluster:
    """A server whose stored catalog the tests write."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._catalog = Catalog()
        create_topics(bootstrap, ["_barnabas_sql_commands"], 1)
        create_topics(bootstrap, ["SLOW", "PER_URL"], 2)

    def define(self, script: str) -> None:
        catalog = self._catalog
        for statement in parse_script(script):
            assert isinstance(statement, Definition)
            catalog = applied(statement, catalog, Defaults()).catalog
        self.send("_barnabas_sql_commands", *changes(self._catalog, catalog))
        self._catalog = catalog

    def send(self, topic: str, *records: tuple[bytes, bytes | None]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for key, value in records:
            producer.produce(topic, value, key)
        assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    server = BarnabasProcess()
    server.start()
    try:
        found = Cluster(server.bootstrap)
        found.define(SOURCES)
        yield found
    finally:
        server.close()


def row(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_examples_of_the_page_run(engine: Any, cluster: Cluster, tmp_path: Path) -> None:
    cluster.send("SLOW", (b"1", row(url="/pay", ms=7)), (b"2", b"no JSON"), (b"3", row(URL="/")))
    rows = [(b"/", row(n=1)), (b"/pay", row(n=1)), (b"/pay", row(n=2)), (b"/", None)]
    cluster.send("PER_URL", *rows)
    example = block("python", "sql.stream(app")
    plain = 'ks.App("report", "127.0.0.1:9092")'
    assert plain in example
    attached = 'ks.App.attach(session, "report", bootstrap, state=state)'
    names: dict[str, Any] = {"session": engine.session, "bootstrap": cluster.bootstrap}
    names["state"] = tmp_path
    exec(example.replace(plain, attached).replace('"127.0.0.1:9092"', "bootstrap"), names)
    app: ks.App = names["app"]
    try:
        wanted = {(b"/", 1), (b"/pay", 1)}
        until = time.monotonic() + WAIT_S
        while wanted != {(each.key(), int.from_bytes(each.value())) for each in written(cluster)}:
            assert time.monotonic() < until, app.wait(0)
            time.sleep(0.2)
    finally:
        app.stop()
    session = engine.session
    slow = session.table("slow")
    assert slow.columns == ["ID", "URL", "MS", "ROWTIME", "ROWPARTITION", "ROWOFFSET"]
    assert sorted(map(tuple, slow.select("id", "url", "ms").collect())) == [
        ("1", "/pay", 7),
        ("3", "/", None),
    ]
    assert list(map(tuple, session.sql("SELECT url, n FROM per_url").collect())) == [("/pay", 2)]
    # A view reads what has come since.
    cluster.send("PER_URL", (b"/new", row(n=5)))
    assert {each["URL"] for each in session.table("per_url").collect()} == {"/pay", "/new"}
    # And back: the statement of the page is that of its example.
    statement = eval(block("python", "create_statement").strip(), {"sql": sql, "ks": ks})
    assert statement.split() == block("sql", "CREATE TABLE by_url").split()
    cluster.define(statement)
    assert sql.register(session, cluster.bootstrap, names=["by_url"]) == ["BY_URL"]
    found = session.table("BY_URL").select("ROWKEY", "ROWVAL").collect()
    assert {tuple(each) for each in found} == {("/", 1), ("/pay", 1)}


def written(cluster: Cluster) -> list[Any]:
    try:
        return read_committed(cluster.bootstrap, "slow-by-url")
    except Exception:  # the topic is not there yet
        return []


def test_names_that_sql_does_not_have_are_refused(
    engine: Any, cluster: Cluster, tmp_path: Path
) -> None:
    app = ks.App.attach(engine.session, "refused", cluster.bootstrap, state=tmp_path)
    with pytest.raises(ValueError, match="There is no stream or table SLOWW; did you mean SLOW"):
        sql.stream(app, "sloww")
    with pytest.raises(ValueError, match=re.escape("SLOW is a stream of SQL: use barnabas.sql.")):
        sql.table(app, "slow")
    with pytest.raises(ValueError, match=re.escape("PER_URL is a table of SQL: use barnabas.sql.")):
        sql.stream(app, "per_url")
    with pytest.raises(ValueError, match="The cluster has no topic other, which a runner with"):
        sql.register(engine.session, cluster.bootstrap, catalog_topic="other")
