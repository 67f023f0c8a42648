"""Apps that continue, with today's code, from checkpoints that earlier code has written."""

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests import spark as setup
from compat_tests.pace import WAIT_S, Pace
from compat_tests.pipeline.killed_job import children, read_committed
from compat_tests.pipeline.upgraded_app import CASES

pytestmark = [setup.needed, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
EARLIER = "6c5fa890"
"""The commit before apps described their topology; a shallow clone does not have it."""
READ = 30
"""Records that the earlier code has processed; retention deletes them before today's code runs."""
NEW = 24
KEYS = 3


class Topics:
    """The topics of an app: its records, its table and its results."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._name, self._bootstrap = name, bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        wanted = [NewTopic(f"{name}-{each}", 1, 1) for each in ("in", "table", *CASES)]
        created = self._admin.create_topics(wanted, operation_timeout=60)
        for each in wanted:
            created[each.topic].result(90)

    def send(self, topic: str, numbers: range) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for number in numbers:
            producer.produce(f"{self._name}-{topic}", str(number), f"k{number % KEYS}")
        assert producer.flush(90) == 0

    def trim(self, topic: str, offset: int) -> None:
        place = TopicPartition(f"{self._name}-{topic}", 0, offset)
        self._admin.delete_records([place], operation_timeout=60)[place].result(90)

    def processed(self) -> dict[str, int]:
        """Return for each case the records that its results account for."""
        found: dict[str, int] = {}
        for case in CASES:
            records = read_committed(self._bootstrap, f"{self._name}-{case}")
            if case in ("copied", "joined"):
                found[case] = len(records)
            else:
                newest = {each.key(): struct.unpack(">q", each.value())[0] for each in records}
                found[case] = sum(newest.values())
        return found


@contextlib.contextmanager
def app_of(code: Path, settings: Path) -> Generator[Callable[[], str]]:
    """Run the app with the code of a directory, and kill it; yield what returns its log."""
    log = settings.with_suffix(".log")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "compat_tests.pipeline.upgraded_app", str(settings)],
            cwd=ROOT,
            env={**os.environ, **setup.FIRST_COMPILER_ONLY, "PYTHONPATH": str(code)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )

    def text() -> str:
        found = log.read_text(errors="replace")[-6000:]
        assert process.poll() is None, found
        return found

    try:
        yield text
    finally:
        for pid in [*children(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def wait_for(topics: Topics, count: int, log: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_S
    pace = Pace()
    while (processed := topics.processed()) != dict.fromkeys(CASES, count):
        assert time.monotonic() < deadline, f"{processed}\n{log()}"
        pace.pause()


def test_checkpoint_of_earlier_code_continues(bootstrap: str, tmp_path: Path) -> None:
    archive = tmp_path / "code.tar"
    command = ["git", "-C", str(ROOT), "archive", "-o", str(archive), EARLIER, "src"]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip(f"this copy of the repository does not have commit {EARLIER}")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "code", filter="data")
    # Its JVM must not write an archive of classes, which nothing uses: 15 s of CPU.
    module = tmp_path / "code/src/barnabas/pipeline/spark/class_archive.py"
    written = '(f"-XX:ArchiveClassesAtExit={partial}",), NewArchive(partial, final)'
    text = module.read_text()
    assert written in text
    module.write_text(text.replace(written, "()"))
    name = f"upgraded-{os.urandom(4).hex()}"
    topics = Topics(bootstrap, name)
    settings = tmp_path / "settings.json"
    state = str(tmp_path / "state")
    settings.write_text(json.dumps({"name": name, "bootstrap": bootstrap, "state": state}))
    topics.send("table", range(KEYS))
    # The records come behind those of the table in time, which a join looks at.
    time.sleep(0.01)
    topics.send("in", range(READ))
    with app_of(tmp_path / "code" / "src", settings) as log:
        wait_for(topics, READ, log)
        time.sleep(2)  # the positions are committed behind the results
    topics.trim("in", READ)
    topics.trim("table", KEYS)
    topics.send("in", range(READ, READ + NEW))
    with app_of(ROOT / "src", settings) as log:
        wait_for(topics, READ + NEW, log)
