"""Messages between the runner and the application of one job: JSON, a line each."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from barnabas.pipeline.delivery.plan.job_plan import (
    Guarantee,
    JobFailure,
    JobKind,
    JobPlan,
    JobProgress,
    OnTrim,
    PartitionLag,
    RecordPosition,
    RunningJob,
)
from barnabas.pipeline.spark.session import SessionSettings


def encode_start(settings: SessionSettings, plan: JobPlan) -> bytes:
    """Return the first line that the application reads."""
    fields = {"settings": attrs.asdict(settings), "plan": attrs.asdict(plan)}
    return json.dumps(fields, default=str).encode()


def decode_start(line: bytes) -> tuple[SessionSettings, JobPlan]:
    """Return the settings and the plan of that line."""
    found: Any = json.loads(line)
    settings, plan = found["settings"], found["plan"]
    for name in ("work_directory", "cache_directory"):
        settings[name] = Path(settings[name])
    settings["formats"] = tuple(settings["formats"])
    kinds: dict[str, Callable[[Any], Any]] = {
        "kind": JobKind,
        "guarantee": Guarantee,
        "on_trim": OnTrim,
        "topics": tuple,
        "task_configs": tuple,
    }
    for name, kind in kinds.items():
        plan[name] = kind(plan[name])
    return SessionSettings(**settings), JobPlan(**plan)


def encode_state(job: RunningJob) -> bytes:
    """Return the line about a job that was started."""
    progress = job.progress()
    failure = job.failure()
    fields = {
        "running": job.is_running(),
        "progress": attrs.asdict(progress),
        "failure": None if failure is None else attrs.asdict(failure),
    }
    return json.dumps(fields).encode()


def encode_refusal(failure: JobFailure) -> bytes:
    """Return the line about a job that cannot start."""
    fields = {
        "running": False,
        "progress": attrs.asdict(JobProgress()),
        "failure": attrs.asdict(failure),
    }
    return json.dumps(fields).encode()


def decode_progress(fields: Mapping[str, Any]) -> JobProgress:
    """Return the progress in a line."""
    found: dict[str, Any] = {
        **fields,
        "lag": tuple(PartitionLag(**each) for each in fields["lag"]),
        "deleted_topics": tuple(fields["deleted_topics"]),
    }
    return JobProgress(**found)


def decode_failure(fields: Mapping[str, Any] | None) -> JobFailure | None:
    """Return the failure in a line, if it has one."""
    if fields is None:
        return None
    record = fields["record"]
    found: dict[str, Any] = {**fields, "record": RecordPosition(**record) if record else None}
    return JobFailure(**found)
