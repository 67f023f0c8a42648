"""The engine of cases: one driver JVM of Spark, and a schema registry over a server."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.streams.stream_app import App
from compat_tests.servers import BarnabasProcess, started
from tests.registry.live_registry import live_registry

if TYPE_CHECKING:
    from collections.abc import Generator

_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    # Cases have few records: an interpreter starts sooner than code is compiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class CaseEngine:
    """A Spark session, and the address of a registry."""

    session: Any
    registry: str

    def separate(self) -> CaseEngine:
        """Return an engine with a session that has its own properties, for another thread."""
        return CaseEngine(self.session.newSession(), self.registry)


@contextlib.contextmanager
def engine_of_cases(threads: int = 1) -> Generator[CaseEngine]:
    """Start Spark and a registry, and stop them at the end."""
    server = BarnabasProcess()
    with (
        tempfile.TemporaryDirectory() as directory,
        started(server),
        live_registry(server.bootstrap) as registry,
    ):
        app = App("sql-cases", master=f"local[{threads}]", spark=_SETTINGS, state=directory)
        try:
            yield CaseEngine(app.spark, registry)
        finally:
            app.stop()
