"""An app with chains of operators with state, which runs until it is killed."""

import json
import sys
from pathlib import Path
from typing import Any

from barnabas import streams as ks

RESULTS = ("levels", "updates", "joined")


def add(count: int, _: Any) -> int:
    """Count a record."""
    return count + 1


def describe(app: ks.App, name: str) -> None:
    """Describe groups of a table, a count of an aggregate's changes, and a join of both."""
    records = app.topic(f"{name}-in", key=ks.String(), value=ks.String())
    counts = records.group_by_key().count()
    app.write(counts.group_by("cast(value AS STRING)").count(), f"{name}-levels")
    changes = records.group_by_key().fold(0, add, returns="LONG").to_stream()
    updates = changes.group_by("key", name="updates").count()
    app.write(updates, f"{name}-updates")
    app.write(counts.join(updates, value="least(left, right)"), f"{name}-joined")


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    running = ks.App(
        given["name"],
        given["bootstrap"],
        state=given["state"],
        master="local[2]",
        spark={"spark.sql.shuffle.partitions": "2", "spark.barnabas.streams.buckets": "8"},
    )
    describe(running, given["name"])
    running.run()
