"""Joins of topics with a backlog: a SELECT that ends, and jobs that are killed."""

import functools
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas import streams as ks
from barnabas.pipeline.sql.analysis.applied_statements import Definition, applied
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.planning import join_planning
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.shell.transient_queries import TransientRows
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually

pytestmark = [setup.needed, pytest.mark.timeout(600)]

LIMIT = 10


def send(bootstrap: str, topic: str, times: range) -> None:
    """Send a record of one key for each time."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for time_ms in times:
        producer.produce(topic, f'{{"AT": {time_ms}}}', "k", timestamp=time_ms)
    assert producer.flush(60) == 0


def test_select_has_all_rows_though_its_last_micro_batch_is_full_and_topics_grow(
    engine, bootstrap, topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right side is read to 200 ms when the left one is at 20 seconds."""
    left, right = topics.create("left"), topics.create("right")
    send(bootstrap, left, range(1_000, 20_001, 1_000))
    send(bootstrap, right, range(10, 201, 10))
    catalog = Catalog()
    *sources, select = parse_script(f"""
        CREATE STREAM l (id STRING KEY, at INT) WITH (kafka_topic='{left}', value_format='JSON');
        CREATE STREAM r (id STRING KEY, at INT) WITH (kafka_topic='{right}', value_format='JSON');
        SELECT l.id, l.at AS at, r.at AS other FROM l LEFT JOIN r
            WITHIN 100 MILLISECONDS GRACE PERIOD 0 MILLISECONDS ON l.id = r.id;
    """)
    for statement in sources:
        assert isinstance(statement, Definition)
        catalog = applied(statement, catalog, Defaults()).catalog
    few = functools.partial(join_planning.read_stream, max_records=LIMIT)
    monkeypatch.setattr(join_planning, "read_stream", few)
    app = ks.App.attach(engine.session, "select", bootstrap, state=tmp_path)
    rows: Any = TransientRows(app, plan_of(select, catalog, is_persistent=False), "earliest")
    eventually(Path(rows._directory.name, "offsets", "0").exists)
    send(bootstrap, right, range(210, 211))
    found = [row for batch in iter(lambda: rows.take(1), None) for row in batch]
    rows.close()
    app.stop()
    assert sorted(found) == [["k", at, None] for at in range(1_000, 20_000, 1_000)]
