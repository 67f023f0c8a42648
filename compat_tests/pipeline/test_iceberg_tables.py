"""Iceberg tables that SparkSink writes and SparkSource reads: `make compat-iceberg`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from compat_tests import spark as setup
from compat_tests.pipeline import test_lake_conversions as conversions
from compat_tests.pipeline import test_spark_connectors as connectors
from compat_tests.pipeline.conftest import SharedJvm, eventually, failure_of
from compat_tests.pipeline.killed_job import read_committed
from compat_tests.pipeline.test_spark_connectors import (
    CONVERTERS,
    PLAIN,
    numbers,
    produce,
    rows,
    wait_for,
)

pytestmark = [
    setup.needed,
    pytest.mark.skipif("BARNABAS_ICEBERG" not in os.environ, reason="run `make compat-iceberg`"),
    pytest.mark.timeout(900),
]

sink = connectors.sink
lake = conversions.lake
source = connectors.source
start = connectors.start
TYPES = (
    "id BIGINT, tiny TINYINT, small SMALLINT, number INT, single FLOAT, double DOUBLE, "
    "yes BOOLEAN, text STRING, many ARRAY<SMALLINT>, pairs MAP<STRING, INT>, "
    "inner STRUCT<a: TINYINT, b: STRING>"
)
VALUE = {
    "id": 1,
    "tiny": 2,
    "small": 3,
    "number": 4,
    "single": 0.5,
    "double": 0.25,
    "yes": True,
    "text": "t",
    "many": [5, 6],
    "pairs": {"a": 7},
    "inner": {"a": 8, "b": "c"},
}


@pytest.fixture(scope="module")
def engine(shared_jvm: SharedJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from barnabas.pipeline.spark.engine import Engine
    from barnabas.pipeline.spark.session import SessionSettings

    shared_jvm.stop()  # the libraries of the formats need another JVM
    work = tmp_path_factory.mktemp("engine")
    running = Engine(
        SessionSettings(work, master="local[2]", is_short_lived=True, formats=("delta", "iceberg"))
    )
    running.start()
    yield running
    running.stop()


@pytest.mark.parametrize("partitions", ["", "city"])
def test_iceberg_table_holds_each_record_once_through_a_restart(
    engine, sink, start, partitions: str
) -> None:
    plan = sink(CONVERTERS, spark__format="iceberg", partition__by=partitions)
    produce(plan, rows(0, 100))
    job = start(plan)
    wait_for(plan, job, 100)
    job.stop()
    files = data_files(plan)
    connectors.lose_commit(plan)
    again = start(attrs.evolve(plan, generation=2))
    assert data_files(plan) == files  # the batch of the table is not written again
    produce(plan, rows(100, 150))
    wait_for(plan, again, 150)
    again.stop()
    assert numbers(engine, plan) == list(range(150))
    parts = engine.session.read.format("iceberg").load(f"{plan.properties['path']}#partitions")
    assert parts.count() == (3 if partitions else 1)


def data_files(plan: Any) -> dict[str, int]:
    """Return the data files with the times of their last change."""
    found = (Path(plan.properties["path"]) / "data").glob("**/*.parquet")
    return {str(each): each.stat().st_mtime_ns for each in found}


def test_iceberg_table_takes_each_type(engine, sink, start) -> None:
    plan = sink(PLAIN, spark__format="iceberg", schema=TYPES)
    produce(plan, [VALUE], has_schema=False)
    job = start(plan)
    wait_for(plan, job, 1)
    job.stop()
    row = engine.session.read.format("iceberg").load(plan.properties["path"]).collect()[0]
    assert row.asDict(recursive=True) == VALUE


def test_iceberg_table_with_other_columns_is_refused(sink, start) -> None:
    plan = sink(CONVERTERS, spark__format="iceberg")
    produce(plan, rows(0, 5))
    job = start(plan)
    wait_for(plan, job, 5)
    job.stop()
    changed = {**plan.properties, "schema": "id BIGINT, town STRING"}
    with pytest.raises(JobStartError, match="has no column town") as refused:
        start(attrs.evolve(plan, generation=2, properties=changed))
    assert refused.value.failure.is_permanent


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_batch_that_the_table_has_is_not_repeated_with_other_conversions(
    engine, lake, start, kind: str
) -> None:
    plan = attrs.evolve(lake, properties={**lake.properties, "spark.format": kind})
    conversions.check_complete_batch(engine, plan, start)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_checkpoint_behind_the_table_is_refused(sink, start, kind: str) -> None:
    plan = sink(CONVERTERS, spark__format=kind)
    produce(plan, rows(0, 5))
    job = start(plan)
    wait_for(plan, job, 5)
    produce(plan, rows(5, 10))
    wait_for(plan, job, 10)
    job.stop()
    connectors.lose_commit(plan)
    offsets = Path(plan.properties["path"]) / "_checkpoints" / plan.name / "offsets"
    newest = max(int(path.name) for path in offsets.iterdir() if path.name.isdecimal())
    (offsets / str(newest)).unlink()
    (offsets / f".{newest}.crc").unlink(missing_ok=True)
    with pytest.raises(JobStartError, match="was rolled back") as refused:
        start(attrs.evolve(plan, generation=2))
    assert refused.value.failure.is_permanent


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_table_is_a_source_of_the_rows_that_a_sink_adds(sink, source, start, kind: str) -> None:
    written = sink(CONVERTERS, spark__format=kind)
    path = written.properties["path"]
    read = source(spark__format=kind, path=path, key__column="city")
    with pytest.raises(JobStartError, match="does not exist yet") as refused:
        start(read)
    assert not refused.value.failure.is_permanent
    produce(written, rows(0, 50))
    lake = start(written)
    wait_for(written, lake, 50)
    job = start(attrs.evolve(read, generation=2))
    eventually(lambda: job.progress().written == 50, job)
    produce(written, rows(50, 80))
    eventually(lambda: job.progress().written == 80, job)
    job.stop()
    connectors.lose_micro_batch(read)
    produce(written, rows(80, 90))
    again = start(attrs.evolve(read, generation=3))
    eventually(lambda: again.progress().written == 10, again)
    again.stop()
    lake.stop()
    messages = read_committed(read.bootstrap, read.properties["topic"])
    assert sorted(json.loads(message.value())["id"] for message in messages) == list(range(90))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_table_whose_rows_are_deleted_ends_its_source(
    engine, sink, source, start, kind: str
) -> None:
    written = sink(CONVERTERS, spark__format=kind)
    path = written.properties["path"]
    produce(written, rows(0, 10))
    lake = start(written)
    wait_for(written, lake, 10)
    lake.stop()
    read = source(spark__format=kind, path=path)
    job = start(read)
    eventually(lambda: job.progress().written == 10, job)
    delete_rows(engine.session, kind, path)
    failure = failure_of(job)
    assert failure.is_permanent
    assert "rows of the table were" in failure.message


def delete_rows(session: Any, kind: str, path: str) -> None:
    """Delete all rows of a table."""
    if kind == "delta":
        session.sql(f"DELETE FROM delta.`{path}`")
        return
    iceberg = session._jvm.org.apache.iceberg
    table = iceberg.hadoop.HadoopTables(session._jsc.hadoopConfiguration()).load(path)
    everything = iceberg.expressions.Expressions.alwaysTrue()
    table.newDelete().deleteFromRowFilter(everything).commit()
