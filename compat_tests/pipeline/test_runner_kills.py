"""Runners that are killed under load: each line of a file is in the topic and in the copy once."""

import threading
import time
from pathlib import Path

import pytest

from compat_tests import spark
from compat_tests.pipeline.connect_workers import RunnerProcess
from compat_tests.servers import ServerProcess

pytestmark = [pytest.mark.timeout(900), pytest.mark.barnabas_only]

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


def test_killed_runner_is_replaced_by_its_standby_without_loss(
    server: ServerProcess | None, tmp_path: Path
) -> None:
    """Two runners of a group: the active one is killed, twice; a new Spark continues the jobs."""
    if reason := spark.missing():
        pytest.skip(reason)
    if server is None:
        pytest.skip("needs a server that this suite starts")
    active, standby = (runner_in(server, tmp_path / name) for name in ("a", "b"))
    written, copied = tmp_path / "in.txt", tmp_path / "out.txt"
    written.touch()
    source = {"connector.class": "FileStreamSource", "file": str(written), "topic": "killed-a"}
    source["slice.ms"] = "300"
    copy = {"connector.class": "TopicCopy", "topics": "killed-a", "target.topic": "killed-b"}
    sink = {"connector.class": "FileStreamSink", "file": str(copied), "topics": "killed-b"}
    active.start()
    standby.start()
    writer = Writer(written)
    try:
        for name, config in (("source", source), ("copy", copy), ("sink", sink)):
            body = {"name": f"killed-{name}", "config": config}
            # A standby passes the request on to the active runner.
            assert standby.ask("POST", "/connectors", body).status == 201
        active.wait(copied.exists, 240)
        for _ in range(KILLS):
            wait_growth(active, copied)
            time.sleep(0.5)
            kill(active)
            began = time.monotonic()
            wait_growth(standby, copied)
            print(f"taken over after {time.monotonic() - began:.1f} s")
            active.start()
            active, standby = standby, active
        writer.stop()
        active.wait(lambda: len(copied.read_text().splitlines()) >= writer.count, 240)
        time.sleep(2)
    finally:
        writer.stop()
        standby.stop()
        active.stop()
    assert copied.read_text().splitlines() == [f"line {number}" for number in range(writer.count)]


def runner_in(server: ServerProcess, directory: Path) -> RunnerProcess:
    directory.mkdir()
    return RunnerProcess(server.bootstrap, directory, "killed")


def wait_growth(runner: RunnerProcess, file: Path) -> None:
    """Wait until more is in a file than now."""
    before = file.stat().st_size
    runner.wait(lambda: file.stat().st_size > before, 240)


def kill(runner: RunnerProcess) -> None:
    assert runner.process is not None
    runner.process.kill()
    runner.process.wait()
