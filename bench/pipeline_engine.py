"""A process with our engine: `python -m bench.pipeline_engine BOOTSTRAP DIRECTORY`.

It starts a job for each line of input, `KIND SOURCE TARGET`, and ends with the input. `copy` and
`count` are jobs of the engine; `sql-copy`, `streams-count` and so on are the same work as a query
of SQL, as a runner starts it, and as an app of `barnabas.streams`.
"""

import sys
import threading
import time
from pathlib import Path
from typing import Any

import attrs

from barnabas import streams
from barnabas.pipeline.delivery.micro_batches import micro_batch_job
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan, RunningJob
from barnabas.pipeline.delivery.plan.kafka_properties import SPARK_READER
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.spark.session import SessionSettings

SQL = {
    "copy": ("v BYTES", "KAFKA", "CREATE STREAM o {} AS SELECT * FROM s;"),
    "json": ("id BIGINT, name STRING", "JSON", "CREATE STREAM o {} AS SELECT * FROM s;"),
    "count": (
        "v STRING",
        "KAFKA",
        "CREATE TABLE o {} AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;",
    ),
}
"""The columns and the format of the source, and the query, by kind."""

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
"""The converter of a copy that reads and writes values, as a query of SQL does."""


def main() -> int:
    bootstrap, directory = sys.argv[1], Path(sys.argv[2])
    engine = Engine(SessionSettings(directory / "work", checkpoint_directory=str(directory)))
    engine.start()
    jobs: list[RunningJob] = []
    threading.Thread(target=watch, args=(jobs,), daemon=True).start()
    for line in sys.stdin:
        kind, source, target = line.split()
        plan = copy_plan(bootstrap, source, target)
        checkpoint = str(directory / f"checkpoint-{source}")
        if kind == "copy":
            jobs.append(engine.start_job(plan))
        elif kind == "json":
            jobs.append(engine.start_job(attrs.evolve(plan, properties=plan.properties | JSON)))
        elif kind == "count":
            jobs.append(micro_batch_job.start(plan, counts(engine, plan), checkpoint))
        elif kind.startswith("sql-"):
            jobs.append(sql_job(engine, plan, kind.removeprefix("sql-"), directory))
        else:
            start_app(engine, plan, kind.removeprefix("streams-"), directory)
    engine.stop()
    return 0


def sql_job(engine: Engine, plan: JobPlan, kind: str, directory: Path) -> RunningJob:
    """Start the query of SQL that does the work, as the job of a runner."""
    from barnabas.pipeline.sql.hosting import hosted_query

    config = sql_configuration(plan, kind)
    query = attrs.evolve(plan, kind=JobKind.STREAM, properties=config)
    return hosted_query.start(
        engine.session, query, directory, lambda name: str(directory / f"checkpoint-{name}")
    )


def sql_configuration(plan: JobPlan, kind: str) -> dict[str, str]:
    """Return the configuration that a runner writes for the query."""
    from barnabas.pipeline.sql.analysis.applied_statements import Definition, applied
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.catalog.source_definitions import Defaults
    from barnabas.pipeline.sql.hosting.query_configs import query_config
    from barnabas.pipeline.sql.scripts import parse_statement, statement_texts

    columns, form, text = SQL[kind]
    source, target = plan.topics[0], plan.target_topic
    script = f"CREATE STREAM s ({columns}) WITH (kafka_topic='{source}', value_format='{form}');"
    script += text.format(f"WITH (kafka_topic='{target}')")
    catalog = Catalog()
    config: dict[str, str | None] = {}
    for each in statement_texts(script):
        statement = parse_statement(each, {})
        assert isinstance(statement, Definition)
        result = applied(statement, catalog, Defaults(), each.text)
        catalog = result.catalog
        if result.started is not None:
            config = query_config(plan.name, result.started, catalog, "earliest", "", {})
    return {name: value for name, value in config.items() if value is not None}


def start_app(engine: Engine, plan: JobPlan, kind: str, directory: Path) -> None:
    """Start the app that does the work, whose query has the name of the plan."""
    app = streams.App.attach(engine.session, plan.name, plan.bootstrap, state=directory / plan.name)
    value = streams.Bytes() if kind == "copy" else streams.String()
    records = app.topic(plan.topics[0], value=value)
    written = records if kind == "copy" else records.group_by("value").count()
    app.write(written, plan.target_topic, name=plan.name)
    app.start()


def copy_plan(bootstrap: str, source: str, target: str, **more: Any) -> JobPlan:
    """Return a job, named like its source, that copies a topic."""
    return JobPlan(
        source,
        1,
        JobKind.COPY,
        bootstrap,
        group_id=source,
        transactional_id=source,
        topics=(source,),
        target_topic=target,
        properties={"key.converter": BYTES, "value.converter": BYTES},
        **more,
    )


def counts(engine: Engine, plan: JobPlan) -> Any:
    """Return the number of records of each value."""
    from pyspark.sql import functions

    rows = (
        engine.session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", plan.bootstrap)
        .options(**{f"kafka.{name}": value for name, value in SPARK_READER.items()})
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", plan.topics[0])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(plan.max_records_per_batch))
        .load()
    )
    found = rows.groupBy("value").agg(functions.count("*").alias("n"))
    return found.selectExpr("value AS key", "CAST(n AS STRING) AS value")


def watch(jobs: list[RunningJob]) -> None:
    """Read the progress of the jobs, as the runner does; it commits the positions of counts."""
    while True:
        time.sleep(0.1)
        for job in list(jobs):
            job.progress()
            failure = job.failure()
            if failure is not None:
                print(failure, failure.trace, flush=True)


if __name__ == "__main__":
    sys.exit(main())
