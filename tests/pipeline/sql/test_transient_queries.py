"""Rows of a SELECT: the failure of its query."""

import queue
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.pipeline.sql.shell.transient_queries import TransientRows
from barnabas.pipeline.sql.sql_failures import UnresolvedError

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
