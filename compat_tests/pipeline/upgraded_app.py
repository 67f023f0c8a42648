"""An app with one query of each kind, which code of two versions runs over one checkpoint."""

import json
import sys
from pathlib import Path
from typing import Any

from barnabas import streams as ks

CASES = ("copied", "counted", "folded", "windowed", "joined")


def add(count: int, _: Any) -> int:
    """Count a record."""
    return count + 1


def describe(app: ks.App, name: str) -> None:
    """Describe the queries: one without state, and four that keep it in different ways."""
    records = app.topic(f"{name}-in", key=ks.String(), value=ks.String())
    table = app.table(f"{name}-table", key=ks.String(), value=ks.String())
    app.write(records, f"{name}-copied")
    app.write(records.group_by_key().count(), f"{name}-counted")
    app.write(records.group_by("key").fold(0, add, returns="LONG"), f"{name}-folded")
    app.write(records.window(ks.tumbling("1000 days")).count(), f"{name}-windowed")
    app.write(records.join_table(table, value="right"), f"{name}-joined")


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    running = ks.App(
        given["name"],
        given["bootstrap"],
        state=given["state"],
        master="local[2]",
        spark={"spark.sql.shuffle.partitions": "2"},
    )
    describe(running, given["name"])
    running.run()
