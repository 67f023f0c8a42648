"""The connectors of MirrorMaker 2 beside Apache Kafka's, from one source."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.pipeline.mirror.mirrormaker.internal_records import Checkpoint, Heartbeat, OffsetSync
from barnabas.pipeline.mirror.mirrormaker.source_positions import position_key
from compat_tests import spark as setup
from compat_tests.pipeline import mirror_maker
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.mirror_maker import PACKAGE, MirrorMaker
from compat_tests.pipeline.mirror_records import (
    commit,
    committed,
    configs,
    contents,
    create,
    fill,
    is_caught_up,
    records,
)
from compat_tests.servers import BarnabasProcess, ServerProcess, started

pytestmark = [setup.needed, mirror_maker.missing, pytest.mark.timeout(900)]

TOPIC = "orders"
REMOTE = "A.orders"
FIRST_TOPIC = "first"
POSITIONS = "mm2-offsets.A.internal"
GROUPS = {"behind": 40, "within": 111, "at-the-end": 0}
"""Groups, and the record that each reads next in partition 0; 0 for none."""


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[ServerProcess, ServerProcess, ServerProcess]]:
    """The source, the target of MirrorMaker 2, and ours."""
    found = (BarnabasProcess(), BarnabasProcess(), BarnabasProcess())
    with started(*found):
        yield found


@pytest.fixture(scope="module")
def java(
    servers: tuple[ServerProcess, ServerProcess, ServerProcess],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MirrorMaker]:
    """MirrorMaker 2, which has copied what the source has.

    It looks for groups at its start and then every ten minutes, and translates only offsets above
    the first sync that its checkpoint task has read. So the records are written when it has
    synced the same groups for another topic.
    """
    source, target, _ = servers
    create(source, TOPIC, 2, retention_ms="123456789")
    create(source, FIRST_TOPIC, 1)
    fill(source, FIRST_TOPIC, 10, 1)
    for group in GROUPS:
        commit(source, group, TopicPartition(FIRST_TOPIC, 0, 10))
    properties = mirror_maker.properties(
        source.bootstrap,
        target.bootstrap,
        f"{TOPIC},{FIRST_TOPIC}",
        ".*",
        **{"offset.lag.max": "10"},
    )
    process = MirrorMaker(tmp_path_factory.mktemp("mm2"), properties)
    process.start()
    try:
        process.eventually(lambda: is_synced(target, f"A.{FIRST_TOPIC}"))
        fill(source, TOPIC, 600, 2)
        stored = records(source, TOPIC, 0)
        for group, number in GROUPS.items():
            offset = stored[number][0] if number else stored[-1][0] + 2
            commit(source, group, TopicPartition(TOPIC, 0, offset))
        expected = contents(source, TOPIC, 2)
        process.eventually(
            lambda: REMOTE in topics(target) and contents(target, REMOTE, 2) == expected
        )
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="module")
def jobs(
    engine: Any, servers: tuple[ServerProcess, ServerProcess, ServerProcess]
) -> Iterator[Callable[..., Any]]:
    """Starts connectors of ours."""
    source, _, target = servers
    started: list[Any] = []

    def start(kind: str, **properties: str) -> Any:
        from barnabas.pipeline.runner.flow_host import flow_plan

        config = {
            "name": f"ours-{kind}-{len(started)}",
            "connector.class": f"{PACKAGE}.Mirror{kind}Connector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "ours",
            "source.cluster.bootstrap.servers": source.bootstrap,
            "target.cluster.bootstrap.servers": target.bootstrap,
            **properties,
        }
        started.append(engine.start_job(flow_plan(config, target.bootstrap)))
        return started[-1]

    yield start
    for job in started:
        job.stop(10)


@pytest.fixture(scope="module")
def ours(
    java: MirrorMaker,
    jobs: Callable[..., Any],
    servers: tuple[ServerProcess, ServerProcess, ServerProcess],
) -> ServerProcess:
    """The target of ours, when it has all records and checkpoints."""
    source, _, target = servers
    eventually(lambda: "heartbeats" in topics(source))
    flow = jobs("Source", topics=TOPIC, **{"offset.lag.max": "10"})
    jobs("Heartbeat")
    eventually(lambda: is_caught_up(flow), flow)
    checkpoints = jobs(
        "Checkpoint",
        topics=TOPIC,
        **{
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
        },
    )
    eventually(lambda: is_synced(target), checkpoints)
    return target


def is_synced(target: ServerProcess, topic: str = REMOTE) -> bool:
    """True when all groups have offsets of a topic at a target."""
    return topic in topics(target) and all(
        committed(target, group, topic)[0] >= 0 for group in GROUPS
    )


def topics(server: ServerProcess) -> dict[str, int]:
    """Return the partitions of each topic."""
    found = AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=30).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def test_topics_and_records_are_those_of_mirror_maker(
    servers: tuple[ServerProcess, ServerProcess, ServerProcess], ours: ServerProcess
) -> None:
    _, java_target, _ = servers
    for name in (REMOTE, "heartbeats", "A.checkpoints.internal"):
        assert topics(ours)[name] == topics(java_target)[name], name
        expected, found = (configs(server, name) for server in (java_target, ours))
        for key in ("cleanup.policy", "retention.ms"):
            assert found[key] == expected[key], (name, key)
    assert contents(ours, REMOTE, 2) == contents(java_target, REMOTE, 2)


def test_internal_records_are_those_of_mirror_maker(
    servers: tuple[ServerProcess, ServerProcess, ServerProcess], ours: ServerProcess
) -> None:
    source, java_target, _ = servers
    beats = [records(server, "heartbeats", 0)[-1] for server in (java_target, ours)]
    assert Heartbeat.of(*beats[0][1:3]).target == "B"
    found = Heartbeat.of(*beats[1][1:3])
    assert (found.source, found.target) == ("A", "ours")
    assert beats[1][4][1] == found.timestamp_ms
    assert (found.key(), found.value()) == tuple(beats[1][1:3])
    name = "A.checkpoints.internal"
    theirs, found = (
        {record[1]: Checkpoint.of(*record[1:3]) for record in records(server, name, 0)}
        for server in (java_target, ours)
    )
    for key, each in theirs.items():
        if each.group in GROUPS and each.topic == REMOTE:
            assert found[key].upstream == each.upstream
    keys = {OffsetSync(TOPIC, number, 0, 0).key() for number in range(2)}
    assert sync_keys(source, "mm2-offset-syncs.ours.internal") >= keys
    # MirrorMaker 2 writes the last sync of a partition when it commits.
    assert sync_keys(source, "mm2-offset-syncs.B.internal") <= keys | {
        OffsetSync(topic, 0, 0, 0).key() for topic in ("heartbeats", FIRST_TOPIC)
    }


def sync_keys(server: ServerProcess, topic: str) -> set[bytes]:
    """Return the keys of a topic of offset syncs."""
    return {OffsetSync.of(*each[1:3]).key() for each in records(server, topic, 0)}


def test_groups_resume_without_a_record_skipped(
    servers: tuple[ServerProcess, ServerProcess, ServerProcess],
    java: MirrorMaker,
    ours: ServerProcess,
) -> None:
    """Each group begins at its record, or a few before it, as with MirrorMaker 2."""
    source, java_target, _ = servers
    stored = records(source, TOPIC, 0)
    java.eventually(lambda: is_synced(java_target))
    for group, number in GROUPS.items():
        for target in (java_target, ours):
            offset = committed(target, group, REMOTE)[0]
            left = [each[2] for each in records(target, REMOTE, 0) if each[0] >= offset]
            wanted = [each[2] for each in stored[number:]] if number else []
            assert left[len(left) - len(wanted) :] == wanted, (group, target is ours)
            if target is ours:  # syncs are dense near the end of the log
                assert len(left) - len(wanted) <= len(wanted), group


def test_kafkas_reader_finds_the_flow(ours: ServerProcess) -> None:
    found = mirror_maker.seen_by_java(ours.bootstrap, "A", "at-the-end")
    offset = committed(ours, "at-the-end", REMOTE)[0]
    assert found == {
        "checkpoints": "[A.checkpoints.internal]",
        "heartbeats": "[A.heartbeats, heartbeats]",
        "upstream": "[A]",
        "hops": "1",
        "offsets": f"{{{REMOTE}-0={offset}}}",
    }


def test_a_flow_is_taken_over(
    servers: tuple[ServerProcess, ServerProcess, ServerProcess],
    java: MirrorMaker,
    jobs: Callable[..., Any],
    ours: ServerProcess,
) -> None:
    """Ours begins where MirrorMaker 2 has ended, and leaves its positions as it does."""
    source, target, _ = servers
    java.stop()
    before = last_positions(target, POSITIONS)
    keys = {position_key("MirrorSourceConnector", "A", (TOPIC, number)) for number in range(2)}
    assert before.keys() >= keys
    fill(source, TOPIC, 90, 2)
    flow = jobs(
        "Source",
        name="taken-over",
        topics=TOPIC,
        **{
            "target.cluster.alias": "B",
            "target.cluster.bootstrap.servers": target.bootstrap,
            "offsets.storage.topic": POSITIONS,
        },
    )
    eventually(lambda: is_caught_up(flow), flow)
    assert contents(target, REMOTE, 2) == contents(source, TOPIC, 2)
    flow.stop(30)
    after = last_positions(target, POSITIONS)
    assert after.keys() - before.keys() <= {
        position_key("MirrorSourceConnector", "A", ("heartbeats", 0))
    }
    assert all(after[key] != before[key] for key in keys)


def last_positions(server: ServerProcess, topic: str) -> dict[bytes, bytes]:
    """Return the last value of each key of a topic."""
    return {
        each[1]: each[2]
        for number in range(topics(server)[topic])
        for each in records(server, topic, number)
    }
