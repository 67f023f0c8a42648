"""Joins of topics with a backlog: a SELECT that ends, and jobs that are killed."""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from barnabas import streams as ks
from barnabas.pipeline.sql.analysis.applied_statements import Definition, applied
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.planning import join_planning
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.shell.transient_queries import TransientRows
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.joined_app import GRACE_MS, WITHIN_MS
from compat_tests.pipeline.killed_job import DriverProcess, read_committed, wait_until

pytestmark = [setup.needed, pytest.mark.timeout(600)]

LIMIT = 10
KEPT_MS = 2 * WITHIN_MS + GRACE_MS
"""For how long a record waits for partners that come after it."""
BACKLOG = 900
"""The records of each side before the app starts: two full micro-batches, and no record more."""
HOUR_MS = 3_600_000
BEGAN_MS = 100_000
LATER_MS = 2_000_000
"""The time of the records that are sent when the backlog has been read."""
LATE_MS = (300, 60_000)
"""Within the grace period, and behind it."""


class Sent(NamedTuple):
    """A record of one of both sides."""

    partition: int
    side: str
    time_ms: int
    number: int

    @property
    def key(self) -> str:
        """Return one of the two keys of the partition."""
        return f"{self.partition}-{self.number % 2}"

    @property
    def value(self) -> str:
        return f"{self.side}{self.partition}.{self.number}"


class Input:
    """Records of both sides: their partitions are hours apart, and some are late."""

    def __init__(self, bootstrap: str, topics: dict[str, str]) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topics = topics
        self.sent: list[Sent] = []

    def send(self, side: str, partition: int, count: int, step_ms: int, since_ms: int) -> None:
        """Send records with a time between one and the next; every 17th one is late."""
        for number in range(1, count + 1):
            late_ms = LATE_MS[number % 2] if number % 17 == 0 else 0
            time_ms = since_ms + partition * 7 * HOUR_MS + number * step_ms - late_ms
            record = Sent(partition, side, time_ms, len(self.sent))
            self.sent.append(record)
            self._producer.produce(
                self._topics[side], record.value, record.key, partition, timestamp=time_ms
            )
        assert self._producer.flush(60) == 0

    def taken(self) -> Iterator[tuple[int, Sent]]:
        """Yield records with their stream times, in the order of Kafka Streams.

        Of the next records of both sides, the one with the lower time is taken: so a record comes
        after those before it in its partition.
        """
        reached: dict[tuple[int, str], int] = defaultdict(int)
        placed: list[tuple[int, int, int, Sent]] = []
        for each in self.sent:
            lane = each.partition, each.side
            reached[lane] = max(reached[lane], each.time_ms)
            placed.append((each.partition, reached[lane], each.number, each))
        for _, time_ms, _, record in sorted(placed, key=lambda each: (*each[:2], each[3].side)):
            yield time_ms, record


def outer_pairs(taken: Iterable[tuple[int, Sent]]) -> Iterator[str]:
    """Yield the values of an outer join by the rules of Kafka Streams."""
    seen: list[Sent] = []
    alone: list[Sent] = []
    newest_ms: dict[tuple[int, str], int] = defaultdict(int)
    ends: dict[int, tuple[int, Sent]] = {}
    for now_ms, record in taken:
        ends[record.partition] = now_ms, record
        lane = record.partition, record.side
        newest_ms[lane] = max(newest_ms[lane], record.time_ms)
        for each in [each for each in alone if is_closed(each, record, now_ms)]:
            alone.remove(each)
            yield pair_of(each)
        matches = [
            other
            for other in seen
            if (other.side != record.side and other.key == record.key)
            and abs(other.time_ms - record.time_ms) <= WITHIN_MS
            and other.time_ms > newest_ms[other.partition, other.side] - KEPT_MS
        ]
        yield from (pair_of(record, other) for other in matches)
        alone = [each for each in alone if each not in matches]
        if not matches and record.time_ms + WITHIN_MS < now_ms:
            yield pair_of(record)
        elif not matches:
            alone.append(record)
        seen.append(record)
    for each in alone:
        now_ms, record = ends[each.partition]
        if is_closed(each, record, now_ms):
            yield pair_of(each)


def is_closed(waiting: Sent, record: Sent, now_ms: int) -> bool:
    is_of_partition = waiting.partition == record.partition
    return is_of_partition and waiting.time_ms + WITHIN_MS + GRACE_MS < now_ms


def pair_of(record: Sent, other: Sent | None = None) -> str:
    values = {record.side: record.value} | ({other.side: other.value} if other else {})
    return f"{values.get('l', '-')} {values.get('r', '-')}"


def looked_up(taken: Iterable[tuple[int, Sent]]) -> Iterator[str]:
    """Yield the values of the right side, joined with the left one as a table."""
    table: dict[str, str] = {}
    for _, record in taken:
        if record.side == "l":
            table[record.key] = record.value
        else:
            yield f"{record.value} {table.get(record.key, '-')}"


def send(bootstrap: str, topic: str, times: range) -> None:
    """Send a record of one key for each time."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for time_ms in times:
        producer.produce(topic, f'{{"AT": {time_ms}}}', "k", timestamp=time_ms)
    assert producer.flush(60) == 0


def test_select_has_all_rows_though_its_last_micro_batch_is_full_and_topics_grow(
    engine, bootstrap, topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right side is read to 200 ms when the left one is at 20 seconds."""
    left, right = topics.create("left"), topics.create("right")
    send(bootstrap, left, range(1_000, 20_001, 1_000))
    send(bootstrap, right, range(10, 201, 10))
    catalog = Catalog()
    *sources, select = parse_script(f"""
        CREATE STREAM l (id STRING KEY, at INT) WITH (kafka_topic='{left}', value_format='JSON');
        CREATE STREAM r (id STRING KEY, at INT) WITH (kafka_topic='{right}', value_format='JSON');
        SELECT l.id, l.at AS at, r.at AS other FROM l LEFT JOIN r
            WITHIN 100 MILLISECONDS GRACE PERIOD 0 MILLISECONDS ON l.id = r.id;
    """)
    for statement in sources:
        assert isinstance(statement, Definition)
        catalog = applied(statement, catalog, Defaults()).catalog
    few = functools.partial(join_planning.read_stream, max_records=LIMIT)
    monkeypatch.setattr(join_planning, "read_stream", few)
    app = ks.App.attach(engine.session, "select", bootstrap, state=tmp_path)
    rows: Any = TransientRows(app, plan_of(select, catalog, is_persistent=False), "earliest")
    eventually(Path(rows._directory.name, "offsets", "0").exists)
    send(bootstrap, right, range(210, 211))
    found = [row for batch in iter(lambda: rows.take(1), None) for row in batch]
    rows.close()
    app.stop()
    assert sorted(found) == [["k", at, None] for at in range(1_000, 20_000, 1_000)]


class JoinedApp:
    """An app with both joins, and what it must have written."""

    def __init__(self, bootstrap: str, topics: Any, directory: Path) -> None:
        self._bootstrap, self._state = bootstrap, directory / "state"
        sources = {side: topics.create(side, partitions=2) for side in "lr"}
        self.input = Input(bootstrap, sources)
        self.targets = [topics.create(name, partitions=2) for name in ("pairs", "looked-up")]
        settings = {
            "name": f"{self.targets[0]}-app",
            "bootstrap": bootstrap,
            "state": str(self._state),
            "topics": list(sources.values()),
            "targets": self.targets,
            "records_max": BACKLOG // 2,
        }
        self.driver = DriverProcess(directory, settings, "compat_tests.pipeline.joined_app")

    def found(self) -> list[Counter[str]]:
        """Return the values of both joins."""
        written = (read_committed(self._bootstrap, each) for each in self.targets)
        return [Counter(each.value().decode() for each in messages) for messages in written]

    def expected(self) -> list[Counter[str]]:
        """Return what Kafka Streams would have written."""
        return [Counter(rule(self.input.taken())) for rule in (outer_pairs, looked_up)]

    def wait(self) -> None:
        """Wait until both joins have all values; fail at the first one that is wrong or twice."""
        expected = self.expected()

        def has_all() -> bool:
            found = self.found()
            wrong = [one - other for one, other in zip(found, expected, strict=True)]
            assert wrong == [Counter(), Counter()]
            return found == expected

        wait_until(has_all, "end of the input", self.driver)

    def is_killed_at(self, point: str) -> None:
        """Start the app, and wait until it is killed at a point of a transaction."""
        (self.driver.points / point).write_text("kill-driver")
        self.driver.start()
        wait_until((self.driver.points / f"{point}.reached").exists, point, self.driver)
        (self.driver.points / f"{point}.reached").unlink()
        self.driver.kill()

    def lose_newest_commits(self) -> None:
        """Leave the state of a kill behind the last task and before Spark's commit logs."""
        self.driver.kill()
        for directory in self._state.rglob("commits"):
            newest = max(
                (each for each in directory.iterdir() if each.name.isdecimal()), key=number
            )
            newest.unlink()
            (directory / f".{newest.name}.crc").unlink(missing_ok=True)


def number(path: Path) -> int:
    return int(path.name)


def test_joins_killed_in_a_backlog_have_each_value_of_kafka_streams_once(
    bootstrap, topics, tmp_path: Path
) -> None:
    """The left side is read to 3 seconds when the right one is at 7 minutes.

    The app is killed in a full micro-batch, and after one that is full and leaves nothing, which is
    repeated when later records are there.
    """
    app = JoinedApp(bootstrap, topics, tmp_path)
    app.input.send("l", 0, BACKLOG - 300, 10, BEGAN_MS)
    app.input.send("l", 1, 300, 10, BEGAN_MS)
    app.input.send("r", 0, BACKLOG, 1_000, BEGAN_MS)  # and none of the other partition
    app.is_killed_at("committed")
    app.driver.start()
    app.wait()
    app.lose_newest_commits()
    app.input.send("l", 0, 100, 10, LATER_MS)
    app.input.send("l", 1, 500, 10, LATER_MS)
    app.input.send("r", 0, 20, 100, LATER_MS)
    app.input.send("r", 1, 300, 300, LATER_MS)
    app.driver.start()
    app.wait()
    app.driver.kill()
