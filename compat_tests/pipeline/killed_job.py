"""A job under load whose processes are killed, and the check of its output from outside."""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.pace import WAIT_S, Pace
from compat_tests.spark import FIRST_COMPILER_ONLY

PARTITIONS = 4
KEYS = 50
DAEMON = "compat_tests.pipeline.planted_daemon"


class Load:
    """A thread that produces numbered records; each record is counted once."""

    def __init__(self, bootstrap: str, topic: str, per_second: int = 400) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self._topic = topic
        self._pause_s = 0.05
        self._burst = max(1, int(per_second * self._pause_s))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._pause_s):
            for _ in range(self._burst):
                number = self.sent
                try:
                    self._producer.produce(self._topic, key=f"k{number % KEYS}", value=str(number))
                except BufferError:
                    break
                self.sent += 1
            self._producer.poll(0)

    def end(self) -> int:
        """Return the number of records after all of them are acknowledged."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(WAIT_S) == 0
        return self.sent


class DriverProcess:
    """The process with the Spark driver, started again after each kill."""

    def __init__(
        self,
        directory: Path,
        settings: dict[str, Any],
        module: str = "compat_tests.pipeline.job_driver",
    ) -> None:
        self._module = module
        self.points = directory / "points"
        self.points.mkdir(exist_ok=True)
        self.log = directory / "driver.log"
        self._settings_file = directory / "settings.json"
        settings = {
            "work": str(directory / "work"),
            "checkpoints": str(directory / "checkpoints"),
            "daemon": DAEMON,
            **settings,
        }
        self._settings_file.write_text(json.dumps(settings))
        self._process: subprocess.Popen[bytes] | None = None
        self._seen = 0
        atexit.register(self._end)

    def start(self) -> None:
        self._seen = self.log.stat().st_size if self.log.exists() else 0
        command = [sys.executable, "-m", self._module]
        environment = {
            **os.environ,
            **FIRST_COMPILER_ONLY,
            "BARNABAS_POINTS": str(self.points),
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._settings_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of the running process."""
        with self.log.open("rb") as log:
            log.seek(self._seen)
            lines = log.read().decode(errors="replace").splitlines()
        found = [json.loads(line) for line in lines if line.startswith('{"event"')]
        return [event for event in found if event["event"] == name]

    def wait_for_progress(self, records: int = 1) -> None:
        """Wait until the running process has taken records."""
        wait_until(lambda: self.newest_records() >= records, "progress", self)

    def newest_records(self) -> int:
        """Return how many records the running process has taken."""
        progress = self.events("progress")
        return progress[-1]["records"] if progress else 0

    def plant(self, point: str, action: str) -> None:
        """Make the first worker that reaches a point act; wait until it did."""
        marker = self.points / f"{point}.reached"
        marker.unlink(missing_ok=True)
        (self.points / f"{point}.new").write_text(action)
        (self.points / f"{point}.new").rename(self.points / point)
        wait_until(marker.exists, f"point {point}", self)

    def jvm(self) -> int:
        """Return the pid of the driver JVM."""
        assert self._process is not None
        for pid in children(self._process.pid):
            if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
                return pid
        raise AssertionError("the driver has no JVM")

    def workers(self) -> list[int]:
        """Return the pids of Spark's Python workers."""
        return [worker for daemon in children(self.jvm()) for worker in children(daemon)]

    def kill(self) -> None:
        """Kill the driver: its Python process and its JVM."""
        assert self._process is not None
        pids = [self._process.pid]
        with contextlib.suppress(AssertionError, FileNotFoundError):
            pids.append(self.jvm())
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def lose_newest_commit(self, checkpoint: Path) -> None:
        """Leave the state of a kill behind the last task and before Spark's commit log."""
        self.kill()
        commits = [each for each in (checkpoint / "commits").iterdir() if each.name.isdecimal()]
        newest = max(commits, key=lambda path: int(path.name))
        newest.unlink()
        (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
        self.start()
        self.wait_for_progress()

    def _end(self) -> None:
        """Leave nothing behind when a test failed."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


def wait_until(condition: Callable[[], bool], what: str, driver: DriverProcess) -> None:
    deadline = time.monotonic() + WAIT_S
    pace = Pace(0.05)
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {WAIT_S:.0f} s:\n{driver.tail()}"
        pace.pause()


def create_topics(bootstrap: str, names: list[str], partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(name, partitions, 1) for name in names])
    for future in created.values():
        future.result(30)


def read_committed(bootstrap: str, topic: str) -> list[Any]:
    """Return all records that read_committed shows, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"check-{os.urandom(4).hex()}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # The end of a partition is known from a fetch that finds nothing there.
            "fetch.wait.max.ms": 10,
        }
    )
    partitions = len(consumer.list_topics(topic, 30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    left, found = set(range(partitions)), []
    deadline = time.monotonic() + WAIT_S
    while left:
        assert time.monotonic() < deadline, f"{topic} was not read to its end: {len(found)} records"
        # It waits for all of the time unless it gets this number of messages.
        for message in consumer.consume(1000, 0.02):
            if message.error() is None:
                found.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise KafkaException(message.error())
    consumer.close()
    return found


def check_copied(bootstrap: str, source: str, target: str, group: str, sent: int) -> None:
    """Each record once, in the order of its key, and the offsets of the group at the end."""
    messages = read_committed(bootstrap, target)
    values = Counter(int(message.value()) for message in messages)
    missing = sorted(set(range(sent)) - set(values))
    doubled = sorted(value for value, count in values.items() if count > 1)
    assert not missing, f"{len(missing)} missing: {missing[:10]}"
    assert not doubled, f"{len(doubled)} doubled: {doubled[:10]}"
    assert len(values) == sent
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for message in messages:
        by_key[message.key()].append(int(message.value()))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(source, number) for number in range(PARTITIONS)]
    committed = {place.partition: place.offset for place in consumer.committed(places, 30)}
    ends = {p.partition: consumer.get_watermark_offsets(p, 30)[1] for p in places}
    consumer.close()
    assert committed == ends


def is_caught_up(bootstrap: str, source: str, group: str) -> bool:
    """True when the group has committed the end of every partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"}
    )
    places = [TopicPartition(source, number) for number in range(PARTITIONS)]
    try:
        ends = {place.partition: consumer.get_watermark_offsets(place, 60)[1] for place in places}
        return all(
            place.offset == ends[place.partition] for place in consumer.committed(places, 60)
        )
    except KafkaException:
        return False
    finally:
        consumer.close()
