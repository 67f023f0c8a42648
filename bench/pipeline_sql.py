"""The rows of `bench.pipeline` with SQL: queries beside the same work as a job, and a runner.

A query of SQL runs in the process of the engine, as a runner starts it. The runner is `barnabas
pipelines --sql`: SELECT of a key, push queries and new queries go through its REST API.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from barnabas.testing.free_ports import free_ports
from bench.pipeline_connectors import Figures, Measurement
from bench.pipeline_contenders import (
    EngineProcess,
    LineProcess,
    OurWorker,
    StreamsProcess,
    memory_mb,
)
from bench.pipeline_topics import fill, topics, wait_end
from compat_tests.pipeline.sql_runners import LineRunner

KEYS = 10_000
PULLS, WARM_PULLS = 1_000, 200
STARTS = 5
QUERIES = 20
RECORDS_OF_QUERIES = 2_000
_READ_S = 180.0

COPY = "SQL: copy of a topic, 100 B"
JSON_COPY = "SQL: copy of a topic of JSON, 100 B"
COUNT = "SQL: word count"
PULL = "SQL: SELECT of a key, REST"
SESSION = "SQL: SELECT of a key, session"
START = "SQL: first rows"
MEMORY = f"SQL: {QUERIES} queries"

BARS: tuple[tuple[str, str, str, float], ...] = (
    (COPY, "warm k/s", "copy job", 0.9),
    (JSON_COPY, "warm k/s", "copy job", 0.9),
    (COUNT, "warm k/s", "barnabas.streams", 0.9),
    (PULL, "p99 ms", "", 20),
    (SESSION, "p99 ms", "", 20),
    (MEMORY, "memory MB", "", 1_300),
)
"""Row, figure and bar: the least ratio to a contender, or without one the largest value."""


class SqlProcess(EngineProcess):
    """Queries of SQL in the process of the engine."""

    prefix = "sql"

    def job(self, kind: str, source: str, target: str) -> None:
        super().job(f"{self.prefix}-{kind}", source, target)


class AppProcess(SqlProcess):
    """Apps of `barnabas.streams` in the process of the engine."""

    name = "barnabas.streams"
    prefix = "streams"


class CopyProcess(EngineProcess):
    """The engine's own copy of a topic."""

    name = "copy job"


class RestRunner(OurWorker):
    """A runner with SQL on a port of its listener."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        super().__init__(bootstrap, directory, "bench")
        (self.sql_port,) = free_ports(1)

    def command(self) -> list[str]:
        settings = {
            "checkpoint.dir": str(self.directory / "checkpoints"),
            "view.dir": str(self.directory / "views"),
        }
        given = [f"--set={name}={value}" for name, value in settings.items()]
        listen = f"127.0.0.1:{self.sql_port}"
        return [*super().command(), *given, "--sql", "--sql-listen", listen]


@contextmanager
def rest_runner(bootstrap: str) -> Iterator[tuple[RestRunner, httpx.Client]]:
    """Start a runner; yield it with a client of its REST API."""
    with tempfile.TemporaryDirectory() as directory:
        runner = RestRunner(bootstrap, Path(directory))
        runner.start()
        url = f"http://127.0.0.1:{runner.sql_port}"
        try:
            with httpx.Client(base_url=url, timeout=_READ_S) as client:
                yield runner, client
        finally:
            runner.stop()


def ksql(client: httpx.Client, text: str) -> Any:
    """Run statements; return their answers."""
    found = client.post("/ksql", json={"ksql": text})
    assert found.status_code == 200, found.text
    return found.json()


def clicks(bootstrap: str, count: int) -> str:
    """Fill the topic `clicks` with JSON; return the statement of its stream."""
    topics(bootstrap, "clicks")
    fill(bootstrap, "clicks", lambda number: json.dumps({"u": f"u{number % KEYS}"}), count)
    return "CREATE STREAM clicks (u STRING) WITH (kafka_topic='clicks', value_format='JSON');"


TABLE = "CREATE TABLE users AS SELECT u, COUNT(*) AS n FROM clicks GROUP BY u;"
LOOKUP = "SELECT u, n FROM users WHERE u = 'u{}';"


def pull_rest(bootstrap: str, _: int) -> Figures:
    """Measure SELECT of a key through the REST API."""
    with rest_runner(bootstrap) as (_, client):
        ksql(client, clicks(bootstrap, KEYS) + TABLE)
        wait_end(bootstrap, "USERS", KEYS)

        def pulled(number: int) -> list[Any]:
            body = {"ksql": LOOKUP.format(number % KEYS)}
            return [each["row"]["columns"] for each in client.post("/query", json=body).json()[1:]]

        return pull_times(pulled)


def pull_session(bootstrap: str, _: int) -> Figures:
    """Measure SELECT of a key in a session of a runner; a line of JSON is there and back."""
    with tempfile.TemporaryDirectory() as directory:
        runner = LineRunner(bootstrap, Path(directory), "bench")
        runner.start()
        try:
            runner.execute(clicks(bootstrap, KEYS) + TABLE)
            wait_end(bootstrap, "USERS", KEYS)
            return pull_times(lambda number: runner.execute(LOOKUP.format(number % KEYS)))
        finally:
            runner.end()


def pull_times(pulled: Callable[[int], list[Any]]) -> Figures:
    """Return the times of look-ups of keys, each of which has the count 1."""
    times_ms: list[float] = []
    for number in range(WARM_PULLS + PULLS):
        began = time.monotonic()
        found = pulled(number * 7919)
        times_ms.append((time.monotonic() - began) * 1000)
        assert found == [[f"u{number * 7919 % KEYS}", 1]], found
    return times_of(times_ms[WARM_PULLS:])


def times_of(times_ms: list[float]) -> Figures:
    """Return the median and the 99th percentile of times."""
    ordered = sorted(times_ms)
    return {"p50 ms": statistics.median(ordered), "p99 ms": ordered[int(len(ordered) * 0.99)]}


def first_rows(bootstrap: str, _: int) -> Figures:
    """Measure the first row of push queries, and the first record of persistent queries."""
    push_s: list[float] = []
    start_s: list[float] = []
    with rest_runner(bootstrap) as (_, client):
        ksql(client, clicks(bootstrap, 100))
        for number in range(STARTS):
            began = time.monotonic()
            body = {"sql": "SELECT u FROM clicks EMIT CHANGES;"}
            with client.stream("POST", "/query-stream", json=body) as response:
                lines = response.iter_lines()
                next(lines)
                assert json.loads(next(lines))[0].startswith("u")
                push_s.append(time.monotonic() - began)
            began = time.monotonic()
            ksql(client, f"CREATE STREAM copy_{number} AS SELECT * FROM clicks;")
            wait_end(bootstrap, f"COPY_{number}", 1)
            start_s.append(time.monotonic() - began)
    # The first one has Spark's start in it.
    return {
        "push, first s": push_s[0],
        "push s": statistics.median(push_s[1:]),
        "query, first s": start_s[0],
        "query s": statistics.median(start_s[1:]),
    }


def memory(bootstrap: str, _: int) -> Figures:
    """Measure a runner with persistent queries that have written their results, one in two counts.

    The keys of a count are few, so that the figure is that of queries and not of their state.
    """
    with rest_runner(bootstrap) as (runner, client):
        ksql(client, clicks(bootstrap, RECORDS_OF_QUERIES))
        for number in range(0, QUERIES, 2):
            ksql(client, f"CREATE STREAM copy_{number} AS SELECT * FROM clicks;")
            ksql(client, TABLE.replace("users", f"users_{number}"))
        for number in range(0, QUERIES, 2):
            wait_end(bootstrap, f"COPY_{number}", RECORDS_OF_QUERIES)
            wait_end(bootstrap, f"USERS_{number}", RECORDS_OF_QUERIES)
        assert runner.process is not None
        return {"memory MB": memory_mb(runner.process.pid)}


def rows(
    throughput: Callable[[str, type[LineProcess], str, int], Figures],
) -> dict[str, dict[str, Measurement]]:
    """Return the measurements by row and contender; `throughput` measures jobs of a process."""

    def of(kind: str, *contenders: type[LineProcess]) -> dict[str, Measurement]:
        return {each.name: partial(throughput, kind, each) for each in contenders}

    return {
        COPY: of("copy", SqlProcess, CopyProcess, AppProcess, StreamsProcess),
        JSON_COPY: of("json", SqlProcess, CopyProcess),
        COUNT: of("count", SqlProcess, AppProcess, StreamsProcess),
        PULL: {"barnabas": pull_rest},
        SESSION: {"barnabas": pull_session},
        START: {"barnabas": first_rows},
        MEMORY: {"barnabas": memory},
    }


def states(found: dict[str, dict[str, dict[str, list[float]]]]) -> list[str]:
    """Return a line for each bar that was measured: the figure, and whether it is met."""
    lines: list[str] = []
    for row, figure, contender, bar in BARS:
        measured = found.get(row, {}).get(figure, {})
        if "barnabas" not in measured or (contender and contender not in measured):
            continue
        value = statistics.median(measured["barnabas"])
        if contender:
            value /= statistics.median(measured[contender])
            wanted, is_met = f"at least {bar} x {contender}", value >= bar
        else:
            wanted, is_met = f"at most {bar:g}", value <= bar
        lines.append(f"{row}, {figure}: {value:.3g}, {wanted}: {'met' if is_met else 'missed'}")
    return lines
