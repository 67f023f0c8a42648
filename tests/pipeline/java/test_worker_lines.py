"""Lines of Java's worker in the runner's log."""

import logging

import pytest

from barnabas.pipeline.java import worker_lines
from barnabas.pipeline.java.worker_lines import WorkerLine


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "INFO|[orders|task-0] |WorkerSinkTask|Executing sink task | twice",
            WorkerLine(logging.INFO, "orders", "WorkerSinkTask", "Executing sink task | twice"),
        ),
        (
            "ERROR|[orders|task-0|offsets] |Worker|no",
            WorkerLine(logging.ERROR, "orders", "Worker", "no"),
        ),
        ("WARN||Plugins|a", WorkerLine(logging.WARNING, None, "Plugins", "a")),
        ("OutOfMemoryError: |", WorkerLine(logging.WARNING, None, "jvm", "OutOfMemoryError: |")),
    ],
)
def test_line_has_its_level_job_source_and_message(text: str, line: WorkerLine) -> None:
    assert worker_lines.parse(text) == line


def test_address_is_that_of_the_loopback_interface() -> None:
    line = "INFO||RestServer|REST server listening at http://127.0.0.1:37489/, advertising URL x"
    assert worker_lines.address_in(line) == "http://127.0.0.1:37489"
    assert worker_lines.address_in(line.replace("127.0.0.1", "10.0.0.1")) is None


def test_lines_of_jobs_and_warnings_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    for text in (
        "INFO||KafkaProducer|started",
        "INFO|[orders|task-0] |Worker|Creating task",
        "WARN||Plugins|slow",
    ):
        worker_lines.relay(text)
    assert caplog.messages == [
        "java worker job=orders source=Worker message=Creating task",
        "java worker source=Plugins message=slow",
    ]


def test_fatal_line_has_its_last_cause() -> None:
    errors = "org.apache.kafka.common.errors"
    line = (
        "ERROR||DistributedHerder|Uncaught exception in herder work thread, exiting:  "
        "org.apache.kafka.connect.errors.ConnectException: no group  at org.apache.A.b(A.java:7)  "
        f"Caused by: {errors}.GroupAuthorizationException: Not authorized: g  at c.D.e(D.java:8)"
    )
    assert worker_lines.fatal_cause(line) == "GroupAuthorizationException: Not authorized: g"
    assert worker_lines.fatal_cause("ERROR||Connect|Stopping due to error") == (
        "Stopping due to error"
    )
    assert worker_lines.fatal_cause("ERROR||Worker|x.Exception: no") is None
