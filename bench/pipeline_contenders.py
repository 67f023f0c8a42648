"""The contenders of `bench.pipeline`: our engine and runner, Kafka Streams, Java's Connect,
Spark without us.

Each is one process with its children. CPU time and memory are those of the whole tree.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from compat_tests import jars
from compat_tests.jars import ROOT
from compat_tests.pipeline.connect_workers import ConnectWorker, JavaWorker, RunnerProcess

WAIT_S = 180.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_CORES = 2


def tree(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    pids = [pid]
    while pids:
        pid = pids.pop()
        yield pid
        try:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += [int(child) for child in task.read_text().split()]
        except OSError:
            continue


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process tree, with that of its ended children."""
    ticks = 0
    for each in tree(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks * _TICK_S


def memory_mb(pid: int) -> float:
    """Return the memory of a process tree; pages that its processes share count once."""
    total = 0
    for each in tree(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def wait(condition: Callable[[], bool], what: str, every_s: float = 0.02) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {WAIT_S:.0f} s")
        time.sleep(every_s)


class LineProcess:
    """A process that starts a job for each line `copy SOURCE TARGET` or `count SOURCE TARGET`."""

    name = ""
    commits = True
    """Whether the positions of a job are committed offsets."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        self._process: subprocess.Popen[str] | None = None
        self._command: list[str] = []

    def command(self) -> list[str]:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self._process is not None
        assert self._process.poll() is None, (self.directory / f"{self.name}.log").read_text()
        return self._process.pid

    def prepare(self) -> None:
        """Build the command, whose time is not measured."""
        self._command = self.command()

    def start(self) -> None:
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
            )

    def job(self, kind: str, source: str, target: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {source} {target}\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class EngineProcess(LineProcess):
    """Our engine: forward for copies, micro-batches for counts."""

    name = "barnabas"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.pipeline_engine", self.bootstrap, str(self.directory)]


class SparkProcess(LineProcess):
    """Spark's own source and sink of Kafka, as its guide has them: at least once."""

    name = "Spark's own sink"
    commits = False
    format = "kafka"

    def command(self) -> list[str]:
        program = [sys.executable, "-m", "bench.pipeline_spark"]
        return [*program, self.bootstrap, str(self.directory), self.format]


class FormatProcess(SparkProcess):
    """The same program with the sink of `barnabas.spark`: exactly once."""

    name = "barnabas.spark"
    format = "barnabas"


class StreamsProcess(LineProcess):
    """Kafka Streams with exactly_once_v2 and its other defaults."""

    name = "Kafka Streams"

    def command(self) -> list[str]:
        program = ROOT / "compat_tests" / "java" / "StreamsBench.java"
        classes, state = self.directory / "classes", self.directory / "streams-state"
        # Compiled before: the time of the compiler is not that of the program.
        compiler = ["javac", "-cp", jars.classpath(), "-d", str(classes), str(program)]
        subprocess.run(compiler, check=True)
        class_path = f"{classes}{os.pathsep}{jars.classpath()}"
        options = ["-Xmx1g", *jars.LOG_OPTIONS, "-cp", class_path, program.stem]
        return ["java", *options, self.bootstrap, str(state), str(_CORES)]


class OurWorker(RunnerProcess):
    """`barnabas pipelines` with Spark's default master, all cores of this machine."""

    def command(self) -> list[str]:
        return [each for each in super().command() if not each.startswith("--spark")]


class ConnectJava(JavaWorker):
    """Java's Connect as its start script runs it, exactly once for sources."""

    def command(self) -> list[str]:
        command = super().command()
        first = command.index("-cp")
        return ["java", "-Xms256m", "-Xmx2g", "-XX:+UseG1GC", *jars.LOG_OPTIONS, *command[first:]]


def create(worker: ConnectWorker, name: str, config: dict[str, Any]) -> None:
    """Create a connector."""
    answer = worker.ask("POST", "/connectors", {"name": name, "config": config})
    if answer.status != 201:
        raise RuntimeError(f"{name}: {answer.status} {answer.body}")
