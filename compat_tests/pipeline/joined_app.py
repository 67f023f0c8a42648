"""An app with joins of topics that have a backlog, which runs until it is killed."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from barnabas import streams as ks

WITHIN_MS = 100
GRACE_MS = 1_000


def describe(app: ks.App, left: str, right: str, targets: list[str], records_max: int) -> None:
    """Describe an outer join of both topics, and a join of the right one with a table."""
    text = ks.String()
    form: dict[str, Any] = {"key": text, "value": text, "max_records": records_max}
    streams = [app.topic(each, **form) for each in (left, right)]
    pairs = streams[0].outer_join(
        streams[1],
        within=f"{WITHIN_MS} milliseconds",
        grace=f"{GRACE_MS} milliseconds",
        value="concat(coalesce(left, '-'), ' ', coalesce(right, '-'))",
    )
    app.write(pairs, targets[0], value=text)
    looked_up = streams[1].left_join_table(
        app.table(left, **form), value="concat(left, ' ', coalesce(right, '-'))"
    )
    app.write(looked_up, targets[1], value=text)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    os.environ["BARNABAS_DRIVER"] = str(os.getpid())
    running = ks.App(
        given["name"],
        given["bootstrap"],
        state=given["state"],
        master="local[2]",
        spark={
            "spark.sql.shuffle.partitions": "2",
            "spark.barnabas.streams.buckets": "4",
            "spark.python.daemon.module": given["daemon"],
        },
    )
    describe(running, *given["topics"], given["targets"], given["records_max"])
    running.run()
