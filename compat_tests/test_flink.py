"""Apache Flink's exactly-once sink: each record once, with job, process and server killed."""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests import jars
from compat_tests.jars import ROOT

pytestmark = pytest.mark.timeout(300)

PARTITIONS = 2
RECORDS = 9_000
# Flink reads fields of JDK classes.
OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.net", "java.nio", "java.time", "java.util")
]


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Flink's jars and the compiled job."""
    folder = Path(os.environ.get("BARNABAS_FLINK_LIB") or ROOT / ".cache" / "flink" / "lib")
    if not any(folder.glob("flink-connector-kafka-*.jar")):
        pytest.skip("Flink's jars are missing: run `make compat` with mvn on the PATH")
    classes = tmp_path_factory.mktemp("flink")
    job = str(ROOT / "compat_tests" / "flink" / "Copy.java")
    subprocess.run(["javac", "-nowarn", "-cp", f"{folder}/*", "-d", classes, job], check=True)
    return f"{classes}:{folder}/*"


class Job:
    """The copying job: a sequence of processes, each starting from its predecessor's checkpoint."""

    def __init__(self, classpath: str, bootstrap: str, naming: str, folder: Path) -> None:
        self.classpath, self.bootstrap, self.naming = classpath, bootstrap, naming
        self.checkpoints = folder / "checkpoints"
        self.log = folder / "flink.log"

    def newest_checkpoint(self) -> str:
        done = [path.parent for path in self.checkpoints.glob("*/chk-*/_metadata")]
        return f"file://{max(done, key=lambda path: path.stat().st_mtime)}" if done else "none"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run one process of the job, and kill it at the end of the block."""
        options = ["-Xmx512m", *jars.SHORT_LIVED, *OPENS, *jars.LOG_OPTIONS]
        where = [self.bootstrap, "in", "out", self.naming, str(self.checkpoints)]
        command = ["java", *options, "-cp", self.classpath, "Copy", *where]
        with (
            self.log.open("ab") as out,
            subprocess.Popen(
                [*command, self.newest_checkpoint()], stdout=out, stderr=out
            ) as process,
        ):
            try:
                yield
            finally:
                process.kill()


class Output:
    """The committed records of the job's output, read continuously."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: Counter[str] = Counter()
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self.consumer.assign([TopicPartition("out", number, 0) for number in range(PARTITIONS)])

    def read(self, done: Callable[[], bool], timeout_s: float, log: Path) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            for message in self.consumer.consume(1000, 0.2):
                if message.error() is None:
                    self.seen[message.value().decode()] += 1
            if time.monotonic() > deadline:
                raise AssertionError(f"not done in time:\n{log.read_text()[-3000:]}")


def produce(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in numbers:
        producer.produce("in", value=str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
def test_a_job_copies_each_record_once(start_server, classpath, naming, tmp_path) -> None:
    server = start_server()
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for future in admin.create_topics([NewTopic(t, PARTITIONS, 1) for t in ("in", "out")]).values():
        future.result(30)
    job = Job(classpath, server.bootstrap, naming, tmp_path)
    output = Output(server.bootstrap)
    produce(server.bootstrap, range(RECORDS // 3))
    with job.running():
        # Within these the job has failed by itself and resumed from a checkpoint.
        output.read(lambda: len(output.seen) == RECORDS // 3, 60, job.log)
        produce(server.bootstrap, range(RECORDS // 3, 2 * RECORDS // 3))
        server.kill()
        server.start()
        output.read(lambda: len(output.seen) > RECORDS // 3, 60, job.log)
        produce(server.bootstrap, range(2 * RECORDS // 3, RECORDS))
    with job.running():
        output.read(lambda: len(output.seen) == RECORDS, 60, job.log)
        # The next checkpoints would commit any record copied twice.
        until = time.monotonic() + 2
        output.read(lambda: time.monotonic() > until, 60, job.log)
    output.consumer.close()
    assert "planted failure" in job.log.read_text()
    assert output.seen == Counter(map(str, range(RECORDS)))
