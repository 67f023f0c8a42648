"""A process that runs one job in Spark until it is killed: `python -m ... SETTINGS_FILE`.

It restarts a job that failed and may recover, as the runner does, and writes what happens as lines
of JSON to standard output.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.spark.session import SessionSettings
from compat_tests.spark import INTERPRETED

POLL_S = 0.2
PAUSE_S = 0.3


def report(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, "time": time.time(), **fields}), flush=True)


def main() -> int:
    settings = json.loads(Path(sys.argv[1]).read_text())
    os.environ["BARNABAS_DRIVER"] = str(os.getpid())
    spark = {"spark.python.daemon.module": settings["daemon"]} if settings["daemon"] else {}
    is_short_lived = settings.get("is_short_lived", True)
    if is_short_lived:
        spark |= INTERPRETED
    engine = Engine(
        SessionSettings(
            Path(settings["work"]),
            master=settings.get("master", "local[2]"),
            checkpoint_directory=settings["checkpoints"],
            formats=tuple(settings.get("formats", ())),
            is_short_lived=is_short_lived,
            properties={**spark, **settings.get("spark", {})},
        )
    )
    engine.start()
    report("session")
    while engine.is_alive():
        try:
            job = started(engine, settings)
        except JobStartError as error:
            report("refused", message=error.failure.message, permanent=error.failure.is_permanent)
            if error.failure.is_permanent:
                return 3
            time.sleep(PAUSE_S)
            continue
        report("started")
        while job.is_running() and job.failure() is None:
            time.sleep(POLL_S)
            progress = job.progress()
            report("progress", records=progress.records, skipped=progress.skipped)
        failure = job.failure()
        report("failed", message=str(failure), trace=failure.trace[:2000] if failure else "")
        if failure is not None and failure.is_permanent:
            return 3
        job.stop(5)
        time.sleep(PAUSE_S)
    return 4


def started(engine: Engine, settings: dict[str, Any]) -> Any:
    if "start" in settings:
        module, _, function = settings["start"].partition(":")
        return getattr(importlib.import_module(module), function)(engine, settings)
    fields = dict(settings["plan"])
    fields["kind"] = JobKind(fields["kind"])
    fields["topics"] = tuple(fields.get("topics", ()))
    fields["task_configs"] = tuple(fields.get("task_configs", ()))
    return engine.start_job(JobPlan(**fields))


if __name__ == "__main__":
    sys.exit(main())
