"""Queries of SQL as jobs of a runner that is killed under load: each result is written once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests import spark as setup
from compat_tests.pipeline.killed_job import children, create_topics, read_committed
from compat_tests.pipeline.test_sql_scripts import newest, produce

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.barnabas_only,
    setup.needed,
]

WAIT_S = 240.0


class SqlRunner:
    """The runner process, started again after each kill."""

    def __init__(self, bootstrap: str, directory: Path, group: str) -> None:
        self.group = group
        self._file = directory / "settings.json"
        self._log = directory / "runner.log"
        self._process: subprocess.Popen[str] | None = None
        names = {kind: f"{group}-{kind}" for kind in ("config", "offset", "status")}
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            **{f"{kind}.storage.topic": name for kind, name in names.items()},
            "offset.storage.partitions": "1",
            "barnabas.sql.enable": "true",
            "barnabas.sql.storage.topic": f"{group}-sql",
            "checkpoint.dir": str(directory / "state"),
            "view.dir": str(directory / "views"),
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
        }
        self._file.write_text(json.dumps(settings))

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "compat_tests.pipeline.sql_runner", str(self._file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=setup.environment(),
            )
        assert "url" in self._line()

    def execute(self, script: str) -> list[Any]:
        """Run a script; a runner that has just started may stand by for a moment."""
        until = time.monotonic() + WAIT_S
        while True:
            assert self._process is not None
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(script) + "\n")
            self._process.stdin.flush()
            answers: list[Any] = self._line()["answers"]
            if not any("stands by" in str(each) for each in answers):
                return answers
            assert time.monotonic() < until, answers
            time.sleep(0.2)

    def kill(self) -> None:
        """Kill the runner and its JVM with SIGKILL."""
        assert self._process is not None
        for pid in (*children(self._process.pid), self._process.pid):
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-60:])

    def _line(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.tail()
        return json.loads(line)


@pytest.fixture
def runner(bootstrap: str, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[SqlRunner]:
    found = SqlRunner(bootstrap, tmp_path, unique("sqljobs"))
    try:
        yield found
    finally:
        found.end()


def wait_for(condition: Callable[[], bool], runner: SqlRunner) -> None:
    until = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until, runner.tail()
        time.sleep(0.2)


def wait_rows(bootstrap: str, topic: str, count: int, runner: SqlRunner) -> None:
    wait_for(lambda: len(read_committed(bootstrap, topic)) >= count, runner)


def test_killed_runner_continues_its_queries_exactly_once(
    bootstrap: str, runner: SqlRunner, unique: Callable[[str], str]
) -> None:
    source, slow, counts = unique("clicks"), unique("slow"), unique("counts")
    letters = unique("letters")
    create_topics(bootstrap, [source], 2)
    runner.start()
    answers = runner.execute(
        f"""
        CREATE STREAM c (id STRING KEY, url STRING, ms INT, n INT)
            WITH (kafka_topic='{source}', value_format='JSON');
        SET 'errors.deadletterqueue.topic.name'='{letters}';
        CREATE STREAM slow WITH (kafka_topic='{slow}') AS SELECT * FROM c WHERE ms > 100;
        UNSET 'errors.deadletterqueue.topic.name';
        CREATE TABLE counts WITH (kafka_topic='{counts}') AS
            SELECT url, COUNT(*) AS n FROM c GROUP BY url;
        """
    )
    assert answers == [
        "created stream C",
        "set the property errors.deadletterqueue.topic.name",
        f"started query CSAS_SLOW_0, which writes the topic {slow}",
        "removed the property errors.deadletterqueue.topic.name",
        f"started query CTAS_COUNTS_1, which writes the topic {counts}",
    ]
    produce(bootstrap, source, range(300))
    damaged = Producer({"bootstrap.servers": bootstrap})
    damaged.produce(source, b"no JSON", b"k")
    assert damaged.flush(30) == 0
    wait_rows(bootstrap, slow, 1, runner)
    wait_rows(bootstrap, counts, 1, runner)
    runner.kill()
    produce(bootstrap, source, range(300, 600))
    runner.start()
    total = 600
    expected = {f"/{url}": total // 3 for url in range(3)}
    wait_for(lambda: newest(bootstrap, counts) == expected, runner)
    wait_rows(bootstrap, slow, total // 2, runner)
    written = Counter(json.loads(each.value())["N"] for each in read_committed(bootstrap, slow))
    assert written == Counter(number for number in range(total) if number % 2)
    assert runner.execute("SELECT n, url FROM counts WHERE url = '/1';") == [[total // 3, "/1"]]
    assert [each.value() for each in read_committed(bootstrap, letters)] == [b"no JSON"]
    (plan,) = runner.execute("EXPLAIN CTAS_COUNTS_1;")
    assert plan.startswith("Delivery: exactly once, in micro-batches")
    assert "in Spark's state by key" in plan
    assert "== Physical Plan ==" in plan
    assert runner.execute("TERMINATE ALL; DROP STREAM slow; DROP TABLE counts;") == [
        "terminated all queries",
        "dropped stream SLOW",
        "dropped table COUNTS",
    ]
