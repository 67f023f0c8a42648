"""Kill cycles of lake sinks of one topic, by default of parquet files.

python -m compat_tests.pipeline.lake_kills --kills 20 --formats parquet delta iceberg
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from barnabas.pipeline.connect.connectors.spark_sink import TABLE_FORMATS
from compat_tests.pipeline.killed_job import (
    DriverProcess,
    Load,
    create_topics,
    is_caught_up,
    wait_until,
)
from compat_tests.servers import BarnabasProcess, ServerProcess

LOGS = {"delta": "_delta_log", "iceberg": "metadata"}
"""The directories in which a commit of a table is a new file."""
STRING = "org.apache.kafka.connect.storage.StringConverter"
PROPERTIES = {
    "key.converter": STRING,
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "row",
    "transforms.row.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.row.field": "n",
    "schema": "n BIGINT",
    "rotate.interval.ms": "300",
}


class SeveralJobs:
    """Jobs that a driver process treats as one."""

    def __init__(self, jobs: list[Any]) -> None:
        self._jobs = jobs

    def is_running(self) -> bool:
        return all(job.is_running() for job in self._jobs)

    def failure(self) -> Any:
        return next((found for job in self._jobs if (found := job.failure())), None)

    def progress(self) -> Any:
        """Return the progress of the slower job."""
        return min((job.progress() for job in self._jobs), key=lambda found: found.records)

    def stop(self, timeout_s: float) -> None:
        for job in self._jobs:
            job.stop(timeout_s)


def start_all(engine: Any, settings: dict[str, Any]) -> SeveralJobs:
    """Start a job for each format."""
    from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan

    jobs: list[Any] = []
    for kind in settings["paths"]:
        name = f"{settings['name']}-{kind}"
        plan = JobPlan(
            name,
            1,
            JobKind.SPARK_SINK,
            settings["bootstrap"],
            group_id=f"connect-{name}",
            transactional_id=name,
            topics=(settings["topic"],),
            connector_class="barnabas.SparkSink",
            properties={
                **PROPERTIES,
                "name": name,
                "topics": settings["topic"],
                "spark.format": kind,
                "path": settings["paths"][kind],
            },
        )
        jobs.append(engine.start_job(attrs.evolve(plan, max_records_per_batch=2_000)))
    return SeveralJobs(jobs)


class LakeJobs:
    """Lake sinks under load."""

    def __init__(
        self, server: ServerProcess, directory: Path, name: str, formats: Sequence[str]
    ) -> None:
        self.server = server
        self.name = name
        self.topic = f"{name}-source"
        self.paths = {kind: directory / kind for kind in formats}
        create_topics(server.bootstrap, [self.topic])
        settings = {
            "start": "compat_tests.pipeline.lake_kills:start_all",
            "name": name,
            "bootstrap": server.bootstrap,
            "topic": self.topic,
            "paths": {kind: str(path) for kind, path in self.paths.items()},
            "formats": [kind for kind in formats if kind in TABLE_FORMATS],
        }
        self.driver = DriverProcess(directory, settings)
        self.load = Load(server.bootstrap, self.topic)
        self.driver.start()
        self.driver.wait_for_progress()

    def kill_at_commit(self) -> None:
        """Kill the driver as soon as a new batch is in the log of the files."""
        kind, path = next(iter(self.paths.items()))
        log = path / LOGS.get(kind, "_spark_metadata")
        known = {entry.name for entry in log.iterdir()}
        wait_until(
            lambda: any(
                not entry.name.startswith(".") and entry.name not in known
                for entry in log.iterdir()
            ),
            "a batch in the log",
            self.driver,
        )
        self.driver.kill()

    def lose_commits(self) -> None:
        """Leave the checkpoints as a kill does between the sink's commit and Spark's."""
        for kind, path in self.paths.items():
            commits = path / "_checkpoints" / f"{self.name}-{kind}" / "commits"
            newest = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
            (commits / str(newest)).unlink()
            (commits / f".{newest}.crc").unlink(missing_ok=True)

    def restart(self) -> None:
        self.driver.start()
        self.driver.wait_for_progress(500)

    def finish(self) -> int:
        """Stop the load, wait until all of it is written; return the number of records."""
        sent = self.load.end()
        for kind in self.paths:
            group = f"connect-{self.name}-{kind}"
            wait_until(
                lambda group=group: is_caught_up(self.server.bootstrap, self.topic, group),
                f"the end of {group}",
                self.driver,
            )
        self.driver.kill()
        return sent


def check_rows(session: Any, jobs: LakeJobs, sent: int) -> None:
    """Each record is in the files and in the table once, as Spark reads them."""
    for kind, path in jobs.paths.items():
        found = Counter(row.n for row in session.read.format(kind).load(str(path)).collect())
        missing = sorted(set(range(sent)) - found.keys())
        doubled = sorted(number for number, count in found.items() if count > 1)
        assert not missing, f"{kind}: {len(missing)} missing: {missing[:10]}"
        assert not doubled, f"{kind}: {len(doubled)} doubled: {doubled[:10]}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--formats", nargs="+", default=["parquet"])
    arguments = parser.parse_args()
    server = BarnabasProcess()
    server.start()
    with tempfile.TemporaryDirectory() as directory:
        jobs = LakeJobs(server, Path(directory), f"lake-{int(time.time())}", arguments.formats)
        for number in range(arguments.kills):
            jobs.kill_at_commit()
            if number % 2:
                jobs.lose_commits()
            jobs.restart()
            print(f"kill {number + 1}: {jobs.load.sent} records sent", flush=True)
        sent = jobs.finish()
        from barnabas.pipeline.spark.engine import Engine
        from barnabas.pipeline.spark.session import SessionSettings

        formats = tuple(kind for kind in arguments.formats if kind in TABLE_FORMATS)
        engine = Engine(SessionSettings(Path(directory) / "reader", "local[2]", formats=formats))
        engine.start()
        check_rows(engine.session, jobs, sent)
        engine.stop()
    server.stop()
    print(f"{sent} records, each once in {' and '.join(arguments.formats)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
