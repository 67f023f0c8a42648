"""A process with our engine: `python -m bench.pipeline_engine BOOTSTRAP DIRECTORY`.

It starts a job for each line of input, `copy SOURCE TARGET` or `count SOURCE TARGET`, and ends with
the input.
"""

import sys
import threading
import time
from pathlib import Path
from typing import Any

from barnabas.pipeline.delivery.micro_batches import micro_batch_job
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan, RunningJob
from barnabas.pipeline.delivery.plan.kafka_properties import SPARK_READER
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.spark.session import SessionSettings

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def main() -> int:
    bootstrap, directory = sys.argv[1], Path(sys.argv[2])
    engine = Engine(SessionSettings(directory / "work", checkpoint_directory=str(directory)))
    engine.start()
    jobs: list[RunningJob] = []
    threading.Thread(target=watch, args=(jobs,), daemon=True).start()
    for line in sys.stdin:
        kind, source, target = line.split()
        plan = copy_plan(bootstrap, source, target)
        if kind == "copy":
            jobs.append(engine.start_job(plan))
        else:
            checkpoint = str(directory / f"checkpoint-{source}")
            jobs.append(micro_batch_job.start(plan, counts(engine, plan), checkpoint))
    engine.stop()
    return 0


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
