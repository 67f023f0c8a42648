"""Processes of Spark that are killed below a busy runner: it comes back, and delivers once."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests import spark
from compat_tests.pipeline.connect_workers import RunnerProcess
from compat_tests.pipeline.killed_job import (
    Load,
    check_copied,
    children,
    create_topics,
    is_caught_up,
)
from compat_tests.pipeline.test_runner_kills import Writer
from compat_tests.servers import ServerProcess

pytestmark = [pytest.mark.timeout(600), pytest.mark.barnabas_only, spark.needed]

STARTS = re.compile(r"Spark started seconds=")


class RestartingRunner(RunnerProcess):
    """`barnabas pipelines` as it is by default: it restarts failed jobs."""

    def command(self) -> list[str]:
        return [part for part in super().command() if "barnabas.restart.max" not in part]

    def jvm(self) -> int:
        """Return the pid of the driver JVM."""
        assert self.process is not None
        (found,) = [pid for pid in children(self.process.pid) if is_java(pid)]
        return found

    def daemon(self) -> int:
        """Return the pid of the daemon that forks Python workers."""
        (found,) = [pid for pid in children(self.jvm()) if b"python_daemon" in command_of(pid)]
        return found

    def worker(self) -> int:
        """Return the pid of a Python worker."""
        return children(self.daemon())[0]

    def starts(self) -> int:
        """Return how often Spark has started."""
        return len(STARTS.findall(self.log_file.read_text()))


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def is_java(pid: int) -> bool:
    return b"java" in command_of(pid).split(b"\0")[0]


def test_spark_is_back_within_seconds_whichever_process_is_killed(
    server: ServerProcess | None, tmp_path: Path
) -> None:
    """The JVM, a worker and the daemon are killed under load, and the JVM once more."""
    if server is None:
        pytest.skip("needs a server that this suite starts")
    runner = RestartingRunner(server.bootstrap, tmp_path, "spark-kills")
    create_topics(server.bootstrap, ["numbers", "numbers-copy"])
    written, copied = tmp_path / "in.txt", tmp_path / "out.txt"
    written.touch()
    lines = {"connector.class": "FileStreamSource", "file": str(written), "topic": "lines"}
    copy = {"connector.class": "TopicCopy", "topics": "numbers", "target.topic": "numbers-copy"}
    sink = {"connector.class": "FileStreamSink", "file": str(copied), "topics": "lines"}
    runner.start()
    load, writer = Load(server.bootstrap, "numbers"), Writer(written)
    try:
        for name, config in (("lines", lines), ("copy", copy), ("sink", sink)):
            body = {"name": f"kills-{name}", "config": config}
            assert runner.ask("POST", "/connectors", body).status == 201
        runner.wait(copied.exists, 240)
        outputs = Outputs(server.bootstrap, copied)
        for pid_of in (runner.jvm, runner.worker, runner.daemon, runner.jvm):
            outputs.wait_growth(runner)
            kill(runner, outputs, pid_of)
        assert runner.starts() == 3
        writer.stop()
        sent = load.end()
        group = "kills-copy"
        runner.wait(lambda: is_caught_up(server.bootstrap, "numbers", group), 120)
        runner.wait(lambda: len(copied.read_text().splitlines()) >= writer.count, 120)
    finally:
        writer.stop()
        load.end()
        runner.stop()
    assert copied.read_text().splitlines() == [f"line {number}" for number in range(writer.count)]
    check_copied(server.bootstrap, "numbers", "numbers-copy", group, sent)


class Outputs:
    """The outputs of the jobs: a file and a topic."""

    def __init__(self, bootstrap: str, copied: Path) -> None:
        self._copied = copied
        self._reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "outputs"})

    def amounts(self) -> tuple[int, int]:
        """Return the size of the file and the end of a partition of the copy."""
        place = TopicPartition("numbers-copy", 0)
        return self._copied.stat().st_size, self._reader.get_watermark_offsets(place, 30)[1]

    def wait_growth(self, runner: RestartingRunner) -> None:
        """Wait until there is more of both than now."""
        lines, numbers = self.amounts()

        def has_grown() -> bool:
            lines_now, numbers_now = self.amounts()
            return lines_now > lines and numbers_now > numbers

        runner.wait(has_grown, 240)


def kill(runner: RestartingRunner, outputs: Outputs, pid_of: Callable[[], int]) -> None:
    """Kill a process, and wait until all jobs write again."""
    time.sleep(0.5)
    os.kill(pid_of(), signal.SIGKILL)
    began = time.monotonic()
    outputs.wait_growth(runner)
    took_s = time.monotonic() - began
    print(f"{pid_of.__name__} killed, all jobs write again after {took_s:.1f} s")
