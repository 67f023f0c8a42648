"""Apache Kafka's MirrorMaker 2 as a process, and Kafka's own reader of its topics."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from compat_tests import jars
from compat_tests.pipeline.conftest import eventually

PACKAGE = "org.apache.kafka.connect.mirror"
missing = pytest.mark.skipif(
    jars.missing() is not None or not any(jars.CONNECTORS.glob("connect-mirror-4*.jar")),
    reason="MirrorMaker 2's jars are missing: run `make compat` with mvn on the PATH",
)
_HEAP = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_LOG_LEVELS = [
    f"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect.{name}=info"
    for name in ("mirror.MirrorMaker", "mirror.Scheduler", "mirror.MirrorCheckpointTask")
]
# Scanning all jars takes most of a start.
_DISCOVERY = {"plugin.discovery": "service_load"}
_WORKER = {
    **_DISCOVERY,
    # A busy machine must not end the worker's membership; its tasks would stop for five minutes.
    "session.timeout.ms": "60000",
    "rebalance.timeout.ms": "60000",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.flush.interval.ms": "1000",
}


def class_path() -> str:
    return f"{jars.classpath()}:{jars.CONNECTORS}/*"


class MirrorMaker:
    """A dedicated MirrorMaker 2, with the properties of a file."""

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        self._file = directory / "mm2.properties"
        self._file.write_text("".join(f"{name} = {each}\n" for name, each in properties.items()))
        self._log = directory / "mm2.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def file(self) -> Path:
        """The file of properties."""
        return self._file

    def start(self) -> None:
        options = [*_HEAP, *jars.archive_options(), *jars.LOG_OPTIONS, *_LOG_LEVELS]
        command = ["java", *options, "-cp", class_path()]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, f"{PACKAGE}.MirrorMaker", str(self._file)], stdout=log, stderr=log
            )

    def stop(self) -> None:
        """End it as a signal does: tasks commit their offsets."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def eventually(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` is true; a failure shows the end of the log."""
        try:
            eventually(condition)
        except AssertionError as error:
            error.add_note(f"the log of MirrorMaker 2:\n{self._log.read_text()[-8000:]}")
            raise


def properties(source: str, target: str, topics: str, groups: str, **more: str) -> dict[str, str]:
    """Return the properties of a flow from A to B that emits and syncs each second."""
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        "B->A.enabled": "false",
        "topics": topics,
        "groups": groups,
        "replication.factor": "1",
        # MirrorMaker 2 copies records of aborted transactions otherwise.
        "A.consumer.isolation.level": "read_committed",
        **{
            f"{name}.replication.factor": "1"
            for name in (
                "checkpoints.topic",
                "heartbeats.topic",
                "offset-syncs.topic",
                "offset.storage",
                "status.storage",
                "config.storage",
            )
        },
        "emit.checkpoints.interval.seconds": "1",
        "emit.heartbeats.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        **_DISCOVERY,
        **{f"{cluster}.{name}": value for cluster in "AB" for name, value in _WORKER.items()},
        **more,
    }


def seen_by_java(target: str, source: str, group: str) -> dict[str, str]:
    """Return what RemoteClusterUtils reads at a target."""
    program = Path(__file__).with_name("MirrorClusters.java")
    done = subprocess.run(
        [
            *("java", *jars.TOOL_OPTIONS, *jars.archive_options(), *jars.LOG_OPTIONS),
            *("-cp", class_path()),
            *(str(program), target, source, group),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())
