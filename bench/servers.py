"""The servers under measurement, and the kernel's counters of them."""

import compileall
import os
import resource
import subprocess
import sys
from pathlib import Path

import barnabas
from compat_tests import jars
from compat_tests.servers import BarnabasProcess, KafkaProcess, ServerProcess

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Measured(ServerProcess):
    """A server whose start is timed."""

    def prepare(self) -> None:
        """Prepare a new data directory."""

    def spawn(self) -> None:
        """Start the process and return at once."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )


class Barnabas(Measured, BarnabasProcess):
    """`barnabas serve`, as a user runs it."""

    def prepare(self) -> None:
        """Compile the package, as pip does at installation."""
        compileall.compile_dir(Path(barnabas.__file__).parent, quiet=1)


class Kafka(Measured, KafkaProcess):
    """Apache Kafka with the heap size of its start script."""

    def prepare(self) -> None:
        """Format the directory."""
        self.write_properties()
        identity = ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "--standalone"]
        file = str(self.properties_file)
        jars.java("kafka.tools.StorageTool", "format", *identity, "-c", file)

    def command(self) -> list[str]:
        options = ["-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", *jars.LOG_OPTIONS]
        return ["java", *options, "-cp", jars.classpath(), "kafka.Kafka", str(self.properties_file)]


def kinds_to_measure(only: str | None) -> dict[str, type[Measured]]:
    """Return the selected servers by name; without Apache Kafka, and with a line about it, where it
    is missing.
    """
    kinds: dict[str, type[Measured]] = {"kafka": Kafka, "barnabas": Barnabas}
    if only:
        kinds = {only: kinds[only]}
    if "kafka" in kinds and (reason := jars.missing()):
        print(f"Without Apache Kafka: {reason}", file=sys.stderr)
        del kinds["kafka"]
    return kinds


def cpu_seconds(server: ServerProcess) -> float:
    """Return the user and system CPU time of the process and its ended children."""
    return cpu_seconds_of(server.pid)


def cpu_seconds_of(pid: int) -> float:
    """Return the CPU time of any process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) * _TICK_S


def memory_bytes(server: ServerProcess) -> int:
    """Return the resident memory of the process and its living children."""
    return sum(resident_bytes(pid) for pid in [server.pid, *children(server.pid)])


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def children(pid: int) -> list[int]:
    """Return the descendants of the process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for text in (task / "children").read_text().split():
            found += [int(text), *children(int(text))]
    return found
