"""Failures of tasks, and how they travel from a Python worker to the driver.

Spark gives the driver the text of an exception, nothing else. A task that knows why it failed puts
one line of JSON into that text, and the driver reads it back. Any other failure may pass.
"""

import json
import re
from typing import Final

import attrs

from barnabas.pipeline.delivery.plan.job_plan import REBUILD, JobFailure, RecordPosition

MARK: Final = "barnabas-task-failure"
_LINE: Final = re.compile(rf"{MARK} (\{{.*\}})")
_NAMED: Final = re.compile(r"(\w+\.)*\w+(: |$)")
"""The first line of an exception in a trace of Python."""
_MESSAGE_CHARS_MAX: Final = 2_000
_TRACE_CHARS_MAX: Final = 20_000
_TRACEBACK: Final = "Traceback (most recent call last):"
_OTHER_VERSION: Final = (
    "the state in the checkpoint was written by another version of the query: bring that version "
    f"back, or {REBUILD}"
)
_DELETED: Final = "rows of the table were changed or deleted, which a source cannot follow; "
# Texts of Spark and of librdkafka that a restart does not change, with what to report.
_PERMANENT: Final = (
    ("UNKNOWN_TOPIC_OR_PART", "a topic of the job does not exist"),
    ("TOPIC_AUTHORIZATION_FAILED", "the job may not use a topic"),
    ("GROUP_AUTHORIZATION_FAILED", "the job may not use its group"),
    ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "the job may not use its transactional ids"),
    ("SaslAuthenticationException", "the broker refused the credentials"),
    ("SCHEMA_NOT_COMPATIBLE", _OTHER_VERSION),
    ("ROW_FORMAT_VALIDATION_FAILURE", _OTHER_VERSION),
    ("DELTA_SOURCE_IGNORE_DELETE", f"{_DELETED}spark.option.ignoreDeletes=true skips it"),
    (
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        f"{_DELETED}spark.option.skipChangeCommits=true skips it",
    ),
    (
        "Cannot process overwrite snapshot",
        f"{_DELETED}spark.option.streaming-skip-overwrite-snapshots=true skips it",
    ),
    (
        "Cannot process delete snapshot",
        f"{_DELETED}spark.option.streaming-skip-delete-snapshots=true skips it",
    ),
    (
        "MALFORMED_RECORD_IN_PARSING",
        "a value is not of the type that the query declares, such as returns= of a function",
    ),
    (
        "ModuleNotFoundError: No module named",
        "a worker lacks a Python module: install it on the hosts of the cluster, or send it with "
        "spark.sparkContext.addPyFile(PATH)",
    ),
    ("[USER_RAISED_EXCEPTION]", "an expression raised an error for a record"),
    (
        "CANNOT_LOAD_STATE_STORE",
        "the state in the checkpoint cannot be loaded: restart the job when its storage answers "
        f"again; when a file is damaged, {REBUILD}",
    ),
)
# The states of SQL for data that an expression cannot take, such as a division by zero; 22000 is
# Spark's for deleted offsets.
_DATA_EXCEPTION: Final = re.compile(r"SQLSTATE: 22(?!000)\w{3}")
# Spark's text about records that retention or a deletion has removed, in several lines.
_LOST: Final = re.compile(
    r"^Some data may have been lost.*?^Reason: *(.*?)$", re.MULTILINE | re.DOTALL
)
# In texts of exceptions that went through Python: the first says nothing, the second is a prefix.
_CALL_FAILED: Final = "py4j.protocol.Py4JJavaError: "
_CAPTURED: Final = "pyspark.errors.exceptions.captured."
_EXPRESSION: Final = re.compile(r"^== SQL \(.*\) ==\n(.*?)\n\^", re.MULTILINE | re.DOTALL)


class TaskFailureError(Exception):
    """A task failed, and knows why."""

    def __init__(
        self,
        message: str,
        *,
        is_permanent: bool,
        record: RecordPosition | None = None,
        stage: str = "",
    ) -> None:
        self.failure = JobFailure(message[:_MESSAGE_CHARS_MAX], is_permanent, record, stage)
        super().__init__(f"{MARK} {_encode(self.failure)}")

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.failure,)


def _restored(failure: JobFailure) -> TaskFailureError:
    return TaskFailureError(
        failure.message,
        is_permanent=failure.is_permanent,
        record=failure.record,
        stage=failure.stage,
    )


class JobStartError(Exception):
    """A job cannot start; `failure` says why and whether a restart helps."""

    def __init__(self, failure: JobFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def refused(message: str, *, is_permanent: bool = True) -> JobStartError:
    """Return the error for a job that must not start."""
    return JobStartError(JobFailure(message, is_permanent))


def from_text(text: str) -> JobFailure:
    """Return the failure that the text of Spark's exception describes."""
    if found := _LINE.search(text):
        return _decode(found[1], _python_part(text[: found.start()])[:_TRACE_CHARS_MAX])
    trace = text[:_TRACE_CHARS_MAX]
    for mark, message in _PERMANENT:
        if mark in text:
            return JobFailure(f"{message}: {_last_line(text)}", True, trace=trace)
    if _DATA_EXCEPTION.search(text):
        found = _EXPRESSION.search(text)
        which = f"the expression `{found[1].strip()}`" if found else "an expression"
        return JobFailure(f"{which} failed for a record: {_last_line(text)}", True, trace=trace)
    if found := _LOST.search(text):
        message = f"records that the job has not read are no longer in Kafka: {found[1]}"
        return JobFailure(message, False, trace=trace)
    return JobFailure(_last_line(text), False, trace=trace)


def _encode(failure: JobFailure) -> str:
    fields = {
        "message": failure.message,
        "permanent": failure.is_permanent,
        "record": attrs.asdict(failure.record) if failure.record else None,
        "stage": failure.stage,
    }
    return json.dumps(fields)


def _decode(line: str, trace: str) -> JobFailure:
    try:
        fields = json.loads(line)
        record = RecordPosition(**fields["record"]) if fields["record"] else None
        return JobFailure(fields["message"], fields["permanent"], record, fields["stage"], trace)
    except (ValueError, KeyError, TypeError):
        return JobFailure(line, False, trace=trace)


def _python_part(text: str) -> str:
    """Return Python's traces in front of a task's failure, without the frames of the JVM."""
    start = max(0, text.find(_TRACEBACK))
    return text[start : text.rfind("\n") + 1].rstrip()


def _last_line(text: str) -> str:
    """Return the line of a trace that names the exception: the last one of a trace of Python."""
    python = text.rpartition(_TRACEBACK)[2] if _TRACEBACK in text else ""
    raised = [line for line in python.splitlines() if line.strip() and not line[0].isspace()]
    if raised and _NAMED.match(raised[0]) and not raised[0].startswith(_CALL_FAILED):
        return raised[0].rstrip()[:_MESSAGE_CHARS_MAX]
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    lines = [line.removeprefix(_CAPTURED) for line in lines if not line.startswith(_CALL_FAILED)]
    named = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b.*:", line)]
    named = [line for line in named if not line.endswith(_TRACEBACK)] or named
    return (named or lines or ["unknown failure"])[0][:_MESSAGE_CHARS_MAX]
