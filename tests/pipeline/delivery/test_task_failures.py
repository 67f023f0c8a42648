"""Failures that travel through the text of Spark's exceptions."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import RecordPosition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError, from_text
from barnabas.pipeline.delivery.writing.produced_records import connector_errors

TRACE = """Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times
Traceback (most recent call last):
  File "worker.py", line 1, in main
{}
	at org.apache.spark.api.python.BasePythonRunner
"""


@given(st.text(), st.booleans(), st.text(max_size=20))
def test_failure_survives_the_text_of_an_exception(
    message: str, is_permanent: bool, stage: str
) -> None:
    record = RecordPosition("t", 1, 2)
    error = TaskFailureError(message, is_permanent=is_permanent, record=record, stage=stage)
    found = from_text(TRACE.format(f"barnabas.TaskFailureError: {error}"))
    assert (found.message, found.is_permanent) == (message[:2000], is_permanent)
    assert (found.record, found.stage) == (record, stage)


def test_failure_survives_pickling() -> None:
    error = TaskFailureError("m", is_permanent=True, record=RecordPosition("t", 1, 2), stage="s")
    assert pickle.loads(pickle.dumps(error)).failure == error.failure


@pytest.mark.parametrize(
    ("error", "is_permanent"),
    [
        (ConnectError("no"), True),
        (DataError("no"), True),
        (ConfigValueError("no"), True),
        (RetriableError("no"), False),
    ],
)
def test_failure_of_a_connector_is_permanent_unless_it_is_retriable(
    error: Exception, is_permanent: bool
) -> None:
    with pytest.raises(TaskFailureError) as raised, connector_errors("START"):
        raise error
    assert raised.value.failure.is_permanent is is_permanent


@pytest.mark.parametrize(
    ("text", "is_permanent"),
    [
        ("ValueError: anything", False),
        ("KafkaError{code=TOPIC_AUTHORIZATION_FAILED}", True),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: no", True),
        ("[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records: {}", True),
        ("ModuleNotFoundError: No module named 'helper'", True),
        ("[USER_RAISED_EXCEPTION] no price SQLSTATE: P0001", True),
        ("[CAST_INVALID_INPUT] The value 'x' .. SQLSTATE: 22018", True),
        ("[KAFKA_DATA_LOSS.START_OFFSET_RESET] .. SQLSTATE: 22000", False),
        ("", False),
    ],
)
def test_failure_of_another_program_is_permanent_when_a_restart_cannot_help(
    text: str, is_permanent: bool
) -> None:
    assert from_text(text).is_permanent is is_permanent


def test_failure_of_an_expression_names_it() -> None:
    """Spark does not say for which record."""
    error = "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
    context = "== SQL (line 1, position 8) ==\n10 / n\n^^^^^^\n\n=== Streaming Query ==="
    assert from_text(f"{error}\n{context}").message == (
        f"the expression `10 / n` failed for a record: {error}"
    )


def test_failure_of_records_that_are_gone_has_the_reason() -> None:
    text = """Some data may have been lost because they are not available in Kafka;
either the data was aged out by Kafka or the topic may have been deleted
Reason: Could not read records in offset [0, 3) for topic partition t-0
with consumer group g.
"""
    assert from_text(text).message == (
        "records that the job has not read are no longer in Kafka: Could not read records in "
        "offset [0, 3) for topic partition t-0"
    )


def test_failure_without_mark_shows_the_line_with_the_exception() -> None:
    assert from_text(TRACE.format("KeyError: 'x'")).message == "KeyError: 'x'"


def test_failure_in_python_shows_the_last_line_of_its_trace() -> None:
    """The line in front names the exception, too, and ends with "Traceback"."""
    head = "org.apache.spark.SparkException: Job aborted due to stage failure: .. PythonException: "
    trace = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in a\n'
        "    raise ValueError\n"
        "ValueError\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "b.py", line 2, in b\n'
        "    raise AbortableError\n"
        "barnabas.AbortableError: topic t cannot be written\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner\n"
    )
    wanted = "barnabas.AbortableError: topic t cannot be written"
    assert from_text(head + trace).message == wanted
    cause = "Driver stacktrace:\nCaused by: org.apache.spark.api.python.PythonException: "
    assert from_text(head + trace + cause + trace).message == wanted


def test_failure_of_a_call_from_python_shows_the_exception_of_spark() -> None:
    cause = "org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING] a record is wrong"
    trace = (
        "Traceback (most recent call last):\n"
        '  File "protocol.py", line 1, in get_return_value\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o654.collectToPython.\n"
        f": {cause}\n"
        "\tat org.apache.spark.api.python.BasePythonRunner\n"
    )
    assert from_text(trace).message.endswith(cause)


def test_trace_of_a_task_that_knows_why_it_failed_is_the_trace_of_python() -> None:
    error = TaskFailureError("m", is_permanent=True)
    found = from_text(TRACE.format(f"barnabas.TaskFailureError: {error}") + "Driver stacktrace: ..")
    assert found.trace == (
        'Traceback (most recent call last):\n  File "worker.py", line 1, in main'
    )
