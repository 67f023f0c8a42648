"""Two log.dirs: the location of each replica, a failing directory, and both servers on both
directories.

The first test holds for Apache Kafka as for barnabas, metadata records included.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.metadata_loader import MetadataLoader
from barnabas.log.checkpoints import MetaProperties
from compat_tests import jars
from compat_tests.servers import KINDS, ServerProcess

PARTITIONS = 4
# A failed directory is noticed when its checkpoints are written.
PROPERTIES = {
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
}


@pytest.fixture
def directories(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "first", tmp_path / "second"


@pytest.fixture
def started(directories: tuple[Path, Path]) -> Iterator[Callable[[str], ServerProcess]]:
    """Start a server of a kind on both directories; stop the previous one."""
    processes: list[ServerProcess] = []

    def start(kind: str) -> ServerProcess:
        for process in processes:
            process.kill()
        both = ",".join(map(str, directories))
        process = KINDS[kind]({**PROPERTIES, "log.dirs": both})
        processes.append(process)
        process.data = Path(both) if kind == "barnabas" else directories[0]
        process.start()
        return process

    yield start
    for process in processes:
        process.close()


def create(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
    assert write(bootstrap) == PARTITIONS


def write(bootstrap: str) -> int:
    """Return how many of the partitions accept a record."""
    taken: list[int] = []
    settings = {"bootstrap.servers": bootstrap, "message.timeout.ms": 60_000, "log_level": 0}
    producer = Producer(settings)
    for number in range(PARTITIONS):
        producer.produce(
            "t",
            b"x",
            partition=number,
            on_delivery=lambda error, message: error or taken.append(message.partition()),
        )
    producer.flush(90)
    return len(taken)


def count(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition("t", number), 30)[1]
        for number in range(PARTITIONS)
    ]
    consumer.close()
    return sum(ends)


def leaders(bootstrap: str) -> list[tuple[int, str | None]]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = admin.list_topics("t", timeout=30).topics["t"]
    return [
        (topic.partitions[n].leader, topic.partitions[n].error and topic.partitions[n].error.name())
        for n in range(PARTITIONS)
    ]


def wait_for(bootstrap: str, expected: list[tuple[int, str | None]]) -> None:
    deadline = time.monotonic() + 60
    while (found := leaders(bootstrap)) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def image(directories: tuple[Path, Path]) -> MetadataImage:
    """Return the metadata log as a list of its records."""
    loader = MetadataLoader(MetadataImage())
    for segment in sorted((directories[0] / "__cluster_metadata-0").glob("*.log")):
        loader.load_batches(segment.read_bytes())
    return loader.image()


def test_a_directory_that_dies_takes_its_partitions_offline_until_it_is_back(
    server_kind: str, started: Callable[[str], ServerProcess], directories: tuple[Path, Path]
) -> None:
    first, second = directories
    server = started(server_kind)
    create(server.bootstrap)
    places = [first if (first / f"t-{n}").exists() else second for n in range(PARTITIONS)]
    assert sorted(places) == [first, first, second, second]
    away = second.with_name("away")
    second.rename(away)
    second.write_text("a file, not a directory")
    gone = (-1, "LEADER_NOT_AVAILABLE")
    wait_for(server.bootstrap, [(1, None) if place == first else gone for place in places])
    server.stop()
    second.unlink()
    away.rename(second)
    ids = {
        directory: MetaProperties.decode((directory / "meta.properties").read_bytes()).directory_id
        for directory in directories
    }
    after = image(directories)
    assert after.brokers[1].directories == (ids[first],)
    for number, place in enumerate(places):
        assert after.partition("t", number).directories == (ids[place],)
    server = started(server_kind)
    wait_for(server.bootstrap, [(1, None)] * PARTITIONS)
    assert (write(server.bootstrap), count(server.bootstrap)) == (PARTITIONS, 2 * PARTITIONS)
    server.stop()
    assert set(image(directories).brokers[1].directories) == set(ids.values())


@pytest.mark.barnabas_only
@jars.needed
@pytest.mark.parametrize("kinds", [("barnabas", "kafka"), ("kafka", "barnabas")])
def test_both_servers_take_over_two_directories_from_each_other(
    kinds: tuple[str, str], started: Callable[[str], ServerProcess]
) -> None:
    server = started(kinds[0])
    create(server.bootstrap)
    server.stop()
    for turn, kind in enumerate((kinds[1], kinds[0]), 2):
        server = started(kind)
        wait_for(server.bootstrap, [(1, None)] * PARTITIONS)
        assert write(server.bootstrap) == PARTITIONS
        assert count(server.bootstrap) == turn * PARTITIONS
        server.stop()
