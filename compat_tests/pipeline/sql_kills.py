"""`make soak-sql KILLS=50`: persistent queries whose processes are killed, checked by SQLite.

A filter with dead letters, a windowed aggregate and a join of a stream with a table run on one
runner. Their input is skewed: most records have one key, the partitions are hours apart in time,
and there are nulls, tombstones and records that do not decode. The runner, its JVM or a Python
worker is killed with SIGKILL at random, `KILLS` times. At the end SQLite runs the same queries over
the same records, and the topics must have its rows: each once, and of the aggregate the newest.

The table changes while no event is sent, and events are sent once all of its changes were seen: so
the result of the join does not depend on which topic is read first.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from barnabas.pipeline.data.key_partitioner import murmur2
from compat_tests import spark as setup
from compat_tests.pace import WAIT_S
from compat_tests.pipeline.killed_job import children, create_topics, read_committed
from compat_tests.pipeline.sql_runners import LineRunner
from compat_tests.servers import BarnabasProcess

PARTITIONS: Final = 3
HOUR_MS: Final = 3_600_000
APART_MS: Final = (0, 7 * HOUR_MS, 15 * HOUR_MS)
"""The time of each partition, from that of the first one."""
BEGAN_MS: Final = 5 * 24 * HOUR_MS
"""The age of the first event: a broker deletes what is older than 7 days."""
PER_SECOND: Final = 100
STEP_MS: Final = 400
"""The time between an event and the next one: 40 times as fast as the clock, for two hours and a
half until the last partition reaches the present time. A broker refuses times of the future."""
CHANGE_EVERY: Final = 5
"""The table changes before each kill whose number is a multiple of this one."""
IDS: Final = [f"id-{number}" for number in range(40)]
MARKS: Final = "mark"
"""The keys of events that look for the newest change of the table; the join leaves them out."""
BAD: Final = (b"no JSON", b'{"N": "many"}', b"[1]", b"")

QUERIES: Final = """
CREATE STREAM events (id STRING KEY, u STRING, n BIGINT)
    WITH (kafka_topic='events', value_format='JSON');
CREATE TABLE users (id STRING PRIMARY KEY, name STRING)
    WITH (kafka_topic='users', value_format='JSON');
SET 'errors.deadletterqueue.topic.name'='letters';
CREATE STREAM kept WITH (kafka_topic='kept') AS SELECT id, u, n FROM events WHERE n % 3 <> 1;
UNSET 'errors.deadletterqueue.topic.name';
CREATE TABLE totals WITH (kafka_topic='totals') AS
    SELECT u, COUNT(*) AS c, SUM(n) AS total FROM events
    WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 3 DAYS) GROUP BY u;
CREATE STREAM joined WITH (kafka_topic='joined') AS
    SELECT e.id, e.n AS n, t.name AS name FROM events e JOIN users t ON e.id = t.id;
"""
OUTPUTS: Final = ("kept", "totals", "joined")

TABLES: Final = """
CREATE TABLE events (change INTEGER, at INTEGER, id TEXT, u TEXT, n INTEGER);
CREATE TABLE users (change INTEGER, id TEXT, name TEXT, is_deleted INTEGER);
"""
KEPT: Final = "SELECT id, u, n FROM events WHERE n % 3 <> 1"
TOTALS: Final = f"""
SELECT u, at / {HOUR_MS} * {HOUR_MS}, COUNT(*), SUM(n) FROM events WHERE u IS NOT NULL GROUP BY 1, 2
"""
JOINED: Final = f"""
SELECT e.id, e.n, t.name FROM events e JOIN users t ON e.id = t.id
WHERE e.id NOT LIKE '{MARKS}%' AND NOT t.is_deleted AND t.change = (
    SELECT MAX(change) FROM users other WHERE other.id = e.id AND other.change <= e.change)
"""


def partition_of(key: str) -> int:
    """Return the partition of a key, as Java's clients choose it."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % PARTITIONS


class SkewedInput:
    """Records of both topics, and the same as rows for SQLite."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        self._chance = chance
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._lock = threading.Lock()
        self._began_ms = int(time.time() * 1000) - BEGAN_MS
        self._errors: list[KafkaError] = []
        self._sent = 0
        self.change = 0
        self.events: list[tuple[Any, ...]] = []
        self.users: list[tuple[Any, ...]] = []
        self.letters: Counter[bytes] = Counter()
        self._paused, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            if not self._paused.is_set():
                with self._lock:
                    for _ in range(PER_SECOND // 20):
                        self._event(self._id())
            self._producer.poll(0)

    def _id(self) -> str | None:
        """Return a key: most often the first one, rarely none."""
        drawn = self._chance.random()
        if drawn < 0.03:
            return None
        return IDS[0] if drawn < 0.6 else self._chance.choice(IDS)

    def _event(self, key: str | None) -> None:
        chance = self._chance
        self._sent += 1
        partition = chance.randrange(PARTITIONS) if key is None else partition_of(key)
        at = self._began_ms + APART_MS[partition] + self._sent * STEP_MS
        at -= chance.randrange(HOUR_MS // 2)
        user = chance.choice([None, "ann", "bob", "cid"])
        number = None if chance.random() < 0.05 else self._sent
        value: bytes | None = json.dumps({"U": user, "N": number, "more": 1}).encode()
        drawn = chance.random()
        if drawn < 0.02:
            value = chance.choice(BAD)
            self.letters[value] += 1
        elif drawn < 0.04:
            value = None
        else:
            self.events.append((self.change, at, key, user, number))
        self._produce("events", value, key, partition, at)

    def _produce(
        self, topic: str, value: bytes | None, key: str | None, partition: int, at: int
    ) -> None:
        self._producer.produce(
            topic, value, key, partition=partition, timestamp=at, on_delivery=self._delivered
        )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._errors.append(error)

    def flush(self) -> None:
        """Wait until the broker has all records; fail when it has refused one."""
        assert self._producer.flush(WAIT_S) == 0
        assert not self._errors, f"{len(self._errors)} records failed, first {self._errors[0]}"

    def mark(self) -> None:
        """Send an event to each partition whose key the newest change of the table has."""
        with self._lock:
            for key in mark_keys():
                self._sent += 1
                at = self._began_ms + APART_MS[partition_of(key)] + self._sent * STEP_MS
                self.events.append((self.change, at, key, None, self._sent))
                value = json.dumps({"U": None, "N": self._sent}).encode()
                self._produce("events", value, key, partition_of(key), at)
        self.flush()

    @contextlib.contextmanager
    def changed(self) -> Generator[None]:
        """Change the table, and send no events until the block ends."""
        self._paused.set()
        with self._lock:
            self.change += 1
            for key in IDS:
                self._user(key, self._chance.random())
            for key in mark_keys():
                self._user(key, 1.0)
        self.flush()
        try:
            yield
        finally:
            self._paused.clear()

    def _user(self, key: str, drawn: float) -> None:
        """Change a row: a fifth is deleted, a tenth does not decode, others stay as they are."""
        name = f"{key} {self.change}"
        value: bytes | None = json.dumps({"NAME": name}).encode()
        if drawn < 0.2:
            value = None
            self.users.append((self.change, key, None, 1))
        elif drawn < 0.3:
            value = b"no JSON"
        elif drawn < 0.5:
            return
        else:
            self.users.append((self.change, key, name, 0))
        self._produce("users", value, key, partition_of(key), int(time.time() * 1000))

    def end(self) -> None:
        """End the load; return when all records are acknowledged."""
        self._ended.set()
        self._thread.join()
        self.flush()


def mark_keys() -> list[str]:
    """Return one key for each partition."""
    found: dict[int, str] = {}
    for number in range(100):
        found.setdefault(partition_of(f"{MARKS}-{number}"), f"{MARKS}-{number}")
    return [found[each] for each in range(PARTITIONS)]


class KilledQueries:
    """The runner under load: kills, and the check at the end."""

    def __init__(self, bootstrap: str, directory: Path, seed: int) -> None:
        self._bootstrap = bootstrap
        self._chance = random.Random(f"kills {seed}")
        self._input_chance = random.Random(f"input {seed}")
        self._runner = LineRunner(bootstrap, directory, "soak-sql", setup.COMPILED)
        self._ends = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "ends",
                "isolation.level": "read_committed",
            }
        )
        create_topics(bootstrap, ["events", "users"], PARTITIONS)

    def run(self, kills: int) -> str:
        """Kill the queries under load, and return how many records were right in the end."""
        self._runner.start()
        try:
            answers = self._runner.execute(QUERIES)
            assert not any(str(each).startswith("error") for each in answers), answers
            given = SkewedInput(self._bootstrap, self._input_chance)
            for number in range(kills):
                if number % CHANGE_EVERY == 0:
                    with given.changed():
                        self._wait_change(given)
                print(f"{time.strftime('%H:%M:%S')} {number + 1}: {self._kill()}", flush=True)
                self._wait_progress()
            given.end()
            return self._check(given)
        finally:
            self._runner.end()

    def _kill(self) -> str:
        """Kill a process after a random time, and return what it was."""
        time.sleep(self._chance.uniform(0, 4))
        runner = self._runner.pid
        below = [each for each in tree(runner) if each != runner]
        jvms = [each for each in below if is_java(each)]
        chosen = self._chance.choice(["runner and JVM", "runner", "JVM", "Python of Spark"])
        if chosen == "runner and JVM" or not jvms:
            kill(runner, *jvms)
            return "runner and JVM"
        if chosen == "runner":
            kill(runner)
        elif chosen == "JVM":
            kill(*jvms)
        else:
            workers = [each for each in below if each not in jvms] or jvms
            kill(self._chance.choice(workers))
        return chosen

    def _wait_progress(self) -> None:
        """Wait until each query has committed more; a runner that has ended is started again."""
        before = {name: self._end(name) for name in OUTPUTS}
        self._wait(
            lambda: all(self._end(name) > end for name, end in before.items()),
            lambda: f"no progress since {before}: {[self._end(each) for each in OUTPUTS]}",
        )

    def _wait_change(self, given: SkewedInput) -> None:
        """Wait until the join has seen the newest change of the table in each partition."""
        wanted = {(key, f"{key} {given.change}") for key in mark_keys()}

        def has_seen() -> bool:
            given.mark()
            return wanted <= {(row[0], row[2]) for row in self._joined()}

        self._wait(has_seen, lambda: f"the join does not see change {given.change}", 1.0)

    def _wait(
        self, condition: Callable[[], bool], failure: Callable[[], str], every_s: float = 0.3
    ) -> None:
        until = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < until, f"{failure()}\n{self._runner.tail()}"
            if self._runner.has_ended():
                self._runner.start()
            time.sleep(every_s)

    def _end(self, topic: str) -> int:
        """Return the sum of the last stable offsets of a topic."""
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(self._ends.get_watermark_offsets(each, 60)[1] for each in places)

    def _read(self, topic: str) -> list[Any]:
        return read_committed(self._bootstrap, topic)

    def _kept(self) -> list[tuple[Any, ...]]:
        found = [(text(each.key()), json.loads(each.value())) for each in self._read("kept")]
        return [(key, value["U"], value["N"]) for key, value in found]

    def _joined(self) -> list[tuple[Any, ...]]:
        found = [(text(each.key()), json.loads(each.value())) for each in self._read("joined")]
        return [(key, value["N"], value["NAME"]) for key, value in found]

    def _totals(self) -> list[tuple[Any, ...]]:
        """Return the newest row of each key and window."""
        newest = {each.key(): json.loads(each.value()) for each in self._read("totals")}
        return [
            (key[:-8].decode(), int.from_bytes(key[-8:]), value["C"], value["TOTAL"])
            for key, value in newest.items()
        ]

    def _check(self, given: SkewedInput) -> str:
        """Compare the topics with SQLite's rows, and again after one more kill."""
        expected = answers(given)
        for _ in range(2):
            self._wait(lambda: not any(self._differences(expected)), lambda: self._shown(expected))
            self._runner.kill()
            self._runner.start()
        counts = {name: sum(rows.values()) for name, rows in expected.items()}
        return f"{len(given.events)} events, {counts}"

    def _differences(self, expected: dict[str, Counter[Any]]) -> Iterator[str]:
        """Yield what is missing and what is too much, for each topic."""
        found: dict[str, Counter[Any]] = {
            "kept": Counter(self._kept()),
            "totals": Counter(self._totals()),
            "joined": Counter(row for row in self._joined() if not is_mark(row[0])),
            "letters": Counter(each.value() or b"" for each in self._read("letters")),
        }
        for name, rows in expected.items():
            if rows != found[name]:
                missing, more = rows - found[name], found[name] - rows
                yield (
                    f"{name}: {missing.total()} are missing, such as {list(missing)[:5]}; "
                    f"{more.total()} are too much, such as {list(more)[:5]}"
                )

    def _shown(self, expected: dict[str, Counter[Any]]) -> str:
        return "\n".join(self._differences(expected))


def answers(given: SkewedInput) -> dict[str, Counter[Any]]:
    """Return the rows that SQLite makes of the same records."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(TABLES)
        database.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", given.events)
        database.executemany("INSERT INTO users VALUES (?, ?, ?, ?)", given.users)
        found = {"kept": KEPT, "totals": TOTALS, "joined": JOINED}
        rows = {name: Counter(database.execute(query)) for name, query in found.items()}
    return {**rows, "letters": given.letters}


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def is_mark(key: str | None) -> bool:
    return key is not None and key.startswith(MARKS)


def tree(pid: int) -> list[int]:
    """Return a process and all processes below it."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            found += children(each)
    return found


def is_java(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    return False


def kill(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    server = BarnabasProcess()
    server.start()
    try:
        with tempfile.TemporaryDirectory(prefix="barnabas-sql-") as directory:
            queries = KilledQueries(server.bootstrap, Path(directory), options.seed)
            print(f"{options.kills} kills, each row once: {queries.run(options.kills)}")
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
