"""Kill cycles of a SparkSource: rows of files that are added, a topic, and a reader outside."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles
from compat_tests.pipeline.forward_kills import ForwardJob
from compat_tests.pipeline.killed_job import (
    KEYS,
    PARTITIONS,
    DriverProcess,
    create_topics,
    read_committed,
    wait_until,
)
from compat_tests.servers import ServerProcess

PAUSE_S = 0.25


class GrowingDirectory:
    """A thread that adds files of numbered rows to a directory; each file appears whole."""

    def __init__(self, directory: Path, per_second: int = 400) -> None:
        self._directory = directory
        self._rows = int(per_second * PAUSE_S)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0
        directory.mkdir()
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(PAUSE_S):
            numbers = range(self.sent, self.sent + self._rows)
            lines = [json.dumps({"n": n, "k": f"k{n % KEYS}"}) + "\n" for n in numbers]
            hidden = self._directory / f".{self.sent}.json"
            hidden.write_text("".join(lines))
            hidden.rename(self._directory / f"{self.sent}.json")
            self.sent += self._rows

    def end(self) -> int:
        """Return the number of rows."""
        self._ended.set()
        self._thread.join()
        return self.sent


class CommittedReader:
    """A thread that reads a topic as others write it, with read_committed."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.values: list[int] = []
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(1000, 0.2):
                if message.error() is None:  # errors of a killed broker pass
                    self.values.append(json.loads(message.value())["n"])
        self._consumer.close()

    def end(self) -> list[int]:
        """Return what was read."""
        self._ended.set()
        self._thread.join()
        return self.values


class RowSourceJob(ForwardJob):
    """A SparkSource under load, with the cycles of a forward job."""

    def __init__(self, server: ServerProcess, directory: Path, name: str) -> None:
        self.server = server
        self.name = name
        self.target = f"{name}-target"
        self.checkpoint = directory / "checkpoint"
        create_topics(server.bootstrap, [self.target])
        self.load: Any = GrowingDirectory(directory / "rows")
        self.reader = CommittedReader(server.bootstrap, self.target)
        properties = {
            "name": name,
            "topic": self.target,
            "spark.format": "json",
            "path": str(directory / "rows"),
            "schema": "n BIGINT, k STRING",
            "key.column": "k",
            "checkpoint.location": str(self.checkpoint),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }
        plan = {
            "name": name,
            "generation": 1,
            "kind": "spark-source",
            "bootstrap": server.bootstrap,
            "group_id": f"connect-{name}",
            "transactional_id": name,
            "connector_class": "barnabas.SparkSource",
            "properties": properties,
            "transaction_timeout_ms": 10_000,
        }
        self.driver = DriverProcess(directory, {"plan": plan})
        self.driver.start()
        self.driver.wait_for_progress()

    def cycles(self) -> list[Callable[[], object]]:
        """Return everything that a soak may do to the job."""
        return [*super().cycles(), self.lose_commit_log]

    def lose_commit_log(self) -> None:
        """Repeat a micro-batch that is whole in the topic."""
        self.driver.lose_newest_commit(self.checkpoint)

    def wait_skipped(self) -> None:
        """Wait until the running driver has skipped rows that a killed one has written."""

        def has_skipped() -> bool:
            return any(event["skipped"] for event in self.driver.events("progress"))

        wait_until(has_skipped, "skipped rows", self.driver)

    def check(self) -> int:
        """Stop the load; the topic must have each row once, and the reader must have seen it."""
        sent = self.load.end()
        wait_until(lambda: self._has_seen(sent), f"{sent} rows", self.driver)
        wait_until(self._is_committed, "commit of the newest micro-batch", self.driver)
        self.driver.kill()
        seen = Counter(self.reader.end())
        messages = read_committed(self.server.bootstrap, self.target)
        found = Counter(json.loads(message.value())["n"] for message in messages)
        missing = sorted(set(range(sent)) - found.keys())
        doubled = sorted(number for number, count in found.items() if count > 1)
        assert not missing, f"{len(missing)} missing: {missing[:10]}"
        assert not doubled, f"{len(doubled)} doubled: {doubled[:10]}"
        assert len(found) == sent
        assert seen == found
        return sent

    def _has_seen(self, sent: int) -> bool:
        values = self.reader.values
        return len(values) >= sent and set(range(sent)).issubset(values)

    def _is_committed(self) -> bool:
        """True when Spark has no micro-batch that it would repeat."""
        files = CheckpointFiles(str(self.checkpoint))
        return files.is_committed(files.newest_batch())
