"""A runner that is killed under load: each line of a file is in the topic and in the copy once."""

import threading
import time
from pathlib import Path

import pytest

from compat_tests import spark
from compat_tests.pipeline.connect_workers import RunnerProcess
from compat_tests.servers import ServerProcess

pytestmark = [pytest.mark.timeout(300), pytest.mark.barnabas_only]

KILLS = 2
LINES_PER_S = 200
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Writer:
    """Appends lines to a file until it is stopped."""

    def __init__(self, file: Path) -> None:
        self.count = 0
        self._file = file
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._file.open("a", buffering=1) as file:
            while not self._stop.wait(1 / LINES_PER_S):
                file.write(f"line {self.count}\n")
                self.count += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def test_killed_runner_loses_and_repeats_nothing(
    server: ServerProcess | None, tmp_path: Path
) -> None:
    if reason := spark.missing():
        pytest.skip(reason)
    if server is None:
        pytest.skip("needs a server that this suite starts")
    runner = RunnerProcess(server.bootstrap, tmp_path, "killed")
    written, copied = tmp_path / "in.txt", tmp_path / "out.txt"
    written.touch()
    source = {"connector.class": "FileStreamSource", "file": str(written), "topic": "killed-a"}
    copy = {"connector.class": "TopicCopy", "topics": "killed-a", "target.topic": "killed-b"}
    sink = {"connector.class": "FileStreamSink", "file": str(copied), "topics": "killed-b"}
    runner.start()
    writer = Writer(written)
    try:
        for name, config in (("source", source), ("copy", copy), ("sink", sink)):
            body = {"name": f"killed-{name}", "config": {**config, "slice.ms": "300"}}
            assert runner.ask("POST", "/connectors", body).status == 201
        runner.wait(copied.exists)
        for _ in range(KILLS):
            before = len(copied.read_text())
            runner.wait(lambda before=before: len(copied.read_text()) > before)
            time.sleep(0.5)
            assert runner.process is not None
            runner.process.kill()
            runner.process.wait()
            runner.start()
        writer.stop()
        runner.wait(lambda: len(copied.read_text().splitlines()) >= writer.count, 120)
        time.sleep(2)
    finally:
        writer.stop()
        runner.stop()
    assert copied.read_text().splitlines() == [f"line {number}" for number in range(writer.count)]
