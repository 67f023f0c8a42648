"""Kills of a process that keeps a view, while its topic is written: rows and positions agree."""

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipeline.views.live_view import LiveView, ViewSpec
from barnabas.pipeline.views.view_codecs import CODECS
from barnabas.testing import Node

KILLED_IN = (2, 5, 0, 0)
"""The transaction in which a process kills itself; 0 is a kill at random."""
PARTITIONS = 3
KEYS = 50


class Writer(threading.Thread):
    """Writes keys once and keys often, so that a record that is lost or applied late shows."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.rows: dict[str, int] = {}
        self.records = 0
        self.is_stopped = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        self._topic = topic

    def run(self) -> None:
        draw = random.Random(5)
        while not self.is_stopped.is_set():
            for _ in range(50):
                self.records += 1
                is_new = draw.random() < 0.5
                key = f"once-{self.records}" if is_new else f"key-{draw.randrange(KEYS)}"
                removes = draw.random() < 0.2
                value = None if removes else CODECS["long"].encode(self.records)
                if removes:
                    self.rows.pop(key, None)
                else:
                    self.rows[key] = self.records
                self._producer.produce(self._topic, value, key)
            self._producer.poll(0)
            time.sleep(0.002)
        assert self._producer.flush(60) == 0


def test_view_that_is_killed_holds_the_table_and_reads_each_record_once(tmp_path: Path) -> None:
    path = tmp_path / "view.sqlite"
    draw = random.Random(11)
    with Node() as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        new = NewTopic("table", PARTITIONS, 1, config={"cleanup.policy": "compact"})
        admin.create_topics([new])["table"].result(30)
        writer = Writer(node.bootstrap, "table")
        writer.start()
        command = [sys.executable, "-m", "tests.pipeline.views.view_process"]
        for transaction in KILLED_IN:
            with subprocess.Popen(
                [*command, node.bootstrap, "table", str(path), str(transaction)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as process:
                if transaction:
                    assert process.wait(60) == -signal.SIGKILL
                    continue
                assert process.stdout is not None
                assert process.stdout.readline() == b"built\n"
                time.sleep(draw.random() * 0.5)
                process.kill()
        writer.is_stopped.set()
        writer.join(60)
        spec = ViewSpec("table", path, CODECS["string"], CODECS["long"])
        with LiveView.open(spec, {"bootstrap.servers": node.bootstrap}) as view:
            resumed_at = sum(view.figures.positions.values())
            view.catch_up(60)
            assert view.figures.rebuilds == 0
            assert resumed_at < writer.records or writer.records == view.count()
            assert {row.key: row.value for row in view.all()} == writer.rows
            assert view.figures.records < writer.records, "the view was read again from its start"
            assert sum(view.figures.positions.values()) == writer.records
