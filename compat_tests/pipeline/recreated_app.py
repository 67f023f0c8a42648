"""An app with and without state, which a test kills while it waits for records."""

import json
import sys
from pathlib import Path
from typing import Any

import attrs

from barnabas import streams as ks


@attrs.frozen
class Settings:
    """The app's name, and its topics."""

    app: str
    bootstrap: str
    state: str
    cases: tuple[str, ...]

    def source(self, case: str) -> str:
        return f"{self.app}-{case}"

    def target(self, case: str) -> str:
        return f"{self.app}-{case}-out"


def describe(app: ks.App, settings: Settings, case: str) -> None:
    """Describe the query of a case: `copied-..` has no state, `counted-..` has."""
    records: Any = app.topic(settings.source(case), key=ks.String(), value=ks.String())
    if case.startswith("counted"):
        records = records.group_by_key().count()
    app.write(records, settings.target(case), name=settings.source(case))


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    given = Settings(**{**found, "cases": tuple(found["cases"])})
    running = ks.App(
        given.app,
        given.bootstrap,
        state=given.state,
        master="local[2]",
        spark={"spark.sql.shuffle.partitions": "2"},
    )
    for each in given.cases:
        describe(running, given, each)
    running.run()
