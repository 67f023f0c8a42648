"""The Spark session in which cases run."""

from __future__ import annotations

import contextlib
import tempfile
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.streams.stream_app import App

if TYPE_CHECKING:
    from collections.abc import Generator

_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.caseSensitive": "true",
    "spark.ui.enabled": "false",
}


@contextlib.contextmanager
def session_of_cases() -> Generator[Any]:
    """Start a session, and stop it at the end."""
    with tempfile.TemporaryDirectory() as directory:
        app = App("sql-cases", master="local[1]", spark=_SETTINGS, state=directory)
        try:
            yield app.spark
        finally:
            app.stop()
