"""One properties file for MirrorMaker 2 and for barnabas, in turn."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from compat_tests import spark as setup
from compat_tests.pipeline import mirror_maker
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.mirror_maker import MirrorMaker
from compat_tests.pipeline.mirror_records import commit, committed, contents, create, fill, records
from compat_tests.pipeline.test_mirror_maker import topics
from compat_tests.servers import BarnabasProcess, KafkaProcess, ServerProcess, started

pytestmark = [
    setup.needed,
    mirror_maker.missing,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        "BARNABAS_MIRROR_MAKER" not in os.environ, reason="run `make compat-mirror-maker`"
    ),
]

TOPIC = "orders"
REMOTE = "A.orders"


@pytest.fixture(params=[BarnabasProcess, KafkaProcess], ids=["barnabas", "kafka"])
def servers(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """A source of Apache Kafka, and a target."""
    found = (KafkaProcess(), request.param())
    with started(*found):
        yield found


@pytest.fixture
def java(servers: tuple[ServerProcess, ServerProcess], tmp_path: Path) -> Iterator[MirrorMaker]:
    source, target = servers
    properties = mirror_maker.properties(source.bootstrap, target.bootstrap, TOPIC, ".*")
    found = MirrorMaker(tmp_path, properties)
    yield found
    found.stop()


def test_a_file_runs_in_both_in_turn(
    servers: tuple[ServerProcess, ServerProcess], java: MirrorMaker, tmp_path: Path
) -> None:
    """No record is copied twice, and a group continues at its record."""
    source, target = servers
    create(source, TOPIC, 2)

    def is_copied() -> bool:
        expected = contents(source, TOPIC, 2)
        found = contents(target, REMOTE, 2) if REMOTE in topics(target) else []
        return sum(map(len, found)) >= sum(map(len, expected))

    for turn in range(2):
        fill(source, TOPIC, 90, 2)
        java.start()
        eventually(is_copied)
        java.stop()
        assert contents(target, REMOTE, 2) == contents(source, TOPIC, 2), f"java {turn}"
        fill(source, TOPIC, 60, 2)
        end = records(source, TOPIC, 0)[-1][0] + 2
        commit(source, "readers", TopicPartition(TOPIC, 0, end))
        ours = run_file(java.file, tmp_path)
        try:
            eventually(is_copied)
            last = records(target, REMOTE, 0)[-1][0]
            eventually(lambda last=last: committed(target, "readers", REMOTE)[0] == last + 1)
        finally:
            ours.send_signal(signal.SIGTERM)
            assert ours.wait(60) == 0, (tmp_path / "ours.log").read_text()[-4000:]
        assert contents(target, REMOTE, 2) == contents(source, TOPIC, 2), f"ours {turn}"
    java.start()
    fill(source, TOPIC, 60, 2)
    eventually(is_copied)
    java.stop()
    assert contents(target, REMOTE, 2) == contents(source, TOPIC, 2)


def run_file(file: Path, directory: Path) -> "subprocess.Popen[bytes]":
    """Start `barnabas mirror run`."""
    command = [sys.executable, "-m", "barnabas", "mirror", "run", str(file)]
    with (directory / "ours.log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--spark", "spark.master=local[2]"],
            env=setup.environment(),
            stdout=log,
            stderr=log,
        )
