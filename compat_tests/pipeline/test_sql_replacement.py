"""CREATE OR REPLACE TABLE of an aggregate: built beside the old one, swapped, also under kills."""

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from compat_tests import spark as setup
from compat_tests.pipeline.killed_job import create_topics, read_committed
from compat_tests.pipeline.sql_runners import LineRunner

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.barnabas_only,
    setup.needed,
]

OLD = "SELECT url, COUNT(*) AS n FROM c GROUP BY url"
NEW = "SELECT url, COUNT(*) AS n, SUM(ms) AS total FROM c WHERE ms > 20 GROUP BY url"
URLS = 40


@pytest.fixture
def runner(bootstrap: str, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[LineRunner]:
    found = LineRunner(bootstrap, tmp_path, unique("replace"))
    try:
        yield found
    finally:
        found.end()


class Clicks:
    """Records of the source, sent until the end, and what the new text makes of them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topic = topic
        self._ended = threading.Event()
        self.sent = 0
        self._send(2000)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            self._send(10)

    def _send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            # The last URL has no record that the new text takes: its row goes.
            url = number % URLS
            ms = 7 if url == URLS - 1 else number % 50
            value = json.dumps({"URL": f"/{url}", "MS": ms})
            self._producer.produce(self._topic, value, str(number))
        self.sent += count
        self._producer.poll(0)

    def end(self) -> dict[str, tuple[int, int]]:
        """Stop sending; return the rows of the new text."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        counts: Counter[str] = Counter()
        totals: Counter[str] = Counter()
        for number in range(self.sent):
            if number % URLS != URLS - 1 and number % 50 > 20:
                counts[f"/{number % URLS}"] += 1
                totals[f"/{number % URLS}"] += number % 50
        return {url: (counts[url], totals[url]) for url in counts}


Table = dict[str, tuple[int, int | None]]


def table(bootstrap: str, topic: str, partition: int | None = None) -> Table:
    """Return the newest row of each key."""
    found: Table = {}
    for each in read_committed(bootstrap, topic):
        if partition is not None and each.partition() != partition:
            continue
        key = each.key().decode()
        found.pop(key, None)
        if each.value() is not None:
            row = json.loads(each.value())
            found[key] = (row["N"], row.get("TOTAL"))
    return found


def begin(bootstrap: str, runner: LineRunner, source: str, sink: str) -> Clicks:
    """Start the old query, and wait for its rows."""
    create_topics(bootstrap, [source], 2)
    runner.start()
    answers = runner.execute(
        f"""
        CREATE STREAM c (url STRING, ms INT) WITH (kafka_topic='{source}', value_format='JSON');
        CREATE TABLE t WITH (kafka_topic='{sink}', value_format='JSON') AS {OLD};
        """
    )
    assert answers[-1] == f"started query CTAS_T_0, which writes the topic {sink}"
    clicks = Clicks(bootstrap, source)
    runner.wait_for(lambda: len(table(bootstrap, sink)) == URLS, "no rows of the old query")
    return clicks


def replaced(runner: LineRunner, sink: str) -> None:
    answers = runner.execute(
        f"CREATE OR REPLACE TABLE t WITH (kafka_topic='{sink}', value_format='JSON') AS {NEW};"
    )
    assert answers == ["started query CTAS_T_1, which rebuilds T to replace it"]


def check_end(bootstrap: str, runner: LineRunner, clicks: Clicks, sink: str) -> None:
    """Wait for the swap, then for the rows of all records; nothing else may be left."""
    runner.wait_for(lambda: is_swapped(bootstrap, runner), "no swap")
    expected = clicks.end()
    runner.wait_for(lambda: table(bootstrap, sink) == expected, f"not {expected}")
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    own = [each for each in topics if each.startswith(f"{runner.group}-CTAS_T")]
    assert own == [f"{runner.group}-CTAS_T_1-epochs"]
    assert runner.execute("SELECT n, total FROM t WHERE url = '/30';") == [[*expected["/30"]]]
    assert runner.execute("TERMINATE ALL; DROP TABLE t;") == [
        "terminated all queries",
        "dropped table T",
    ]


def is_swapped(bootstrap: str, runner: LineRunner) -> bool:
    """True when nothing is left of the old query and of the staging topic."""
    if runner.has_ended():
        runner.start()
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    gone = (f"{runner.group}-CTAS_T_1-staging", f"{runner.group}-CTAS_T_0-epochs")
    return not any(each in topics for each in gone)


def check_reads(bootstrap: str, sink: str, ended: threading.Event, found: list[str]) -> None:
    """Read a partition again and again: it has the rows of one text, never of both."""
    while not ended.is_set():
        rows = table(bootstrap, sink, 0)
        texts = {total is None for _, total in rows.values()}
        if len(texts) > 1:
            found.append(f"rows of both texts: {rows}")
        if False in texts and f"/{URLS - 1}" in rows:
            found.append("a row that the new text does not have")
        time.sleep(0.5)


@contextlib.contextmanager
def reading(bootstrap: str, sink: str) -> Generator[None]:
    """Read the table meanwhile, and check what it has."""
    ended, wrong = threading.Event(), list[str]()
    reader = threading.Thread(target=check_reads, args=(bootstrap, sink, ended, wrong))
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
    assert not wrong, wrong[0]


def test_replaced_aggregate_changes_at_once(
    bootstrap: str, runner: LineRunner, unique: Callable[[str], str]
) -> None:
    source, sink = unique("clicks"), unique("t")
    clicks = begin(bootstrap, runner, source, sink)
    with reading(bootstrap, sink):
        replaced(runner, sink)
        check_end(bootstrap, runner, clicks, sink)


def test_killed_runner_replaces_the_aggregate_all_the_same(
    bootstrap: str, runner: LineRunner, unique: Callable[[str], str]
) -> None:
    source, sink = unique("clicks"), unique("t")
    clicks = begin(bootstrap, runner, source, sink)
    replaced(runner, sink)
    with reading(bootstrap, sink):
        runner.kill()
        runner.start()
        begun = 0
        for delay_s in (0.0, 0.5, 1.5, 2.5, 3.5):
            runner.wait_for(lambda begun=begun: is_begun(bootstrap, runner, begun), "no swap")
            begun = swaps(bootstrap, runner)
            time.sleep(delay_s)
            runner.kill()
            runner.start()
        check_end(bootstrap, runner, clicks, sink)


def is_begun(bootstrap: str, runner: LineRunner, begun: int) -> bool:
    """True when one more swap has begun, or none will."""
    return swaps(bootstrap, runner) > begun or is_swapped(bootstrap, runner)


def swaps(bootstrap: str, runner: LineRunner) -> int:
    """Return how often a swap has begun."""
    records = read_committed(bootstrap, f"{runner.group}-sql")
    return sum(b'"SWAPPING"' in (each.value() or b"") for each in records)
