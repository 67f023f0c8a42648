"""Rows of a SELECT: the failure of its query, and how many are collected at a time."""

import queue
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.pipeline.sql.planning import query_planning
from barnabas.pipeline.sql.shell import transient_queries
from barnabas.pipeline.sql.shell.transient_queries import TableRows, TransientRows
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from tests.pipeline.sql.test_query_analysis import plan

PROXY = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
py4j.protocol.Py4JJavaError: An error occurred while calling o391.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times
Caused by: org.apache.spark.SparkArithmeticException: [CAST_OVERFLOW] the value does not fit
"""  # noqa: E501 - as Py4J writes it


def test_failed_query_names_its_cause() -> None:
    rows: Any = TransientRows.__new__(TransientRows)
    rows._left, rows._found, rows._is_closed = None, queue.Queue(), threading.Event()
    rows._running = SimpleNamespace(isActive=False, exception=lambda: RuntimeError(PROXY))
    with pytest.raises(UnresolvedError, match=r"^The query failed: org.*Job aborted due to stage"):
        rows.take(0.01)


class StoppedError(Exception):
    """Ends a query that would begin to read."""


def no_columns(_: object) -> dict[str, object]:
    """Return a layout without columns, which need Spark."""
    return {}


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("SELECT id FROM s EMIT CHANGES", 7),
        ("SELECT id FROM t EMIT CHANGES", 7),
        ("SELECT id, COUNT(*) FROM s GROUP BY id EMIT CHANGES", 100_000),
    ],
)
def test_micro_batches_without_state_have_the_given_size(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    def stopped(*_: object, max_records: int) -> None:
        given.append(max_records)
        raise StoppedError

    for name in ("read_stream", "read_table"):
        monkeypatch.setattr(query_planning, name, stopped)
    monkeypatch.setattr(query_planning, "layout_of", no_columns)
    app: Any = None
    with pytest.raises(StoppedError):
        query_planning.planned(app, plan(text, is_persistent=False), "earliest", 7)
    assert given == [most]


@pytest.mark.parametrize(("kind", "most"), [(TransientRows, 10_000), (TableRows, 100_000)])
def test_rows_that_are_collected_are_few(
    kind: type[TransientRows], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    def stopped(app: Any, plan: Any, start: str, records_max: int) -> None:
        del app, plan, start
        given.append(records_max)
        raise StoppedError

    monkeypatch.setattr(transient_queries, "planned", stopped)
    app: Any = None
    with pytest.raises(StoppedError):
        kind(app, plan("SELECT id FROM t EMIT CHANGES", is_persistent=False), "earliest")
    assert given == [most]
