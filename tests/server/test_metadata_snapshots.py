"""Snapshots of the quorum's log, starts from them, and what an earlier controller left open."""

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cluster.quorum.metadata_snapshot import SnapshotId, decode_snapshot, metadata_batch
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BeginTransactionRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.protocol.types import Uuid
from barnabas.testing import Node
from barnabas.testing.eventually import wait_until

SMALL = {"metadata.log.max.record.bytes.between.snapshots": "2000"}


def create(node: Node, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.create_topics([NewTopic(name, 3, 1) for name in names]).values():
        future.result(60)


def snapshots(data: Path) -> list[SnapshotId]:
    found = (SnapshotId.parse(path.name) for path in (data / "__cluster_metadata-0").iterdir())
    return sorted(each for each in found if each is not None)


def topics(node: Node) -> set[str]:
    return set(AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=60).topics)


def test_snapshot_is_written_when_enough_bytes_were_appended(tmp_path: Path) -> None:
    with Node(tmp_path, SMALL) as node:
        for number in range(20):
            create(node, f"topic-{number}")
    latest = snapshots(tmp_path)[-1]
    assert latest.end_offset > 7
    content = (tmp_path / "__cluster_metadata-0" / latest.file_name).read_bytes()
    named = {
        record.name
        for record in decode_snapshot(content).records
        if isinstance(record, TopicRecord)
    }
    assert len(named) >= 15


def test_start_resumes_from_the_snapshot_without_the_log_below_it(tmp_path: Path) -> None:
    wanted = {f"topic-{number}" for number in range(20)}
    with Node(tmp_path, SMALL) as node:
        for name in sorted(wanted):
            create(node, name)
    directory = tmp_path / "__cluster_metadata-0"
    covered = snapshots(tmp_path)[-1]
    for path in directory.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            path.unlink()
    with Node(tmp_path, SMALL) as node:
        found = topics(node)
        assert found <= wanted
        assert len(found) >= 15
        create(node, "another")
    assert covered in snapshots(tmp_path)
    with Node(tmp_path) as node:
        assert "another" in topics(node)


def test_snapshot_is_not_repeated_without_changes(tmp_path: Path) -> None:
    with Node(tmp_path, {"metadata.log.max.record.bytes.between.snapshots": "1"}) as node:
        create(node, "one")
        server = node.server
        assert server is not None
        wait_until(lambda: snapshots(tmp_path)[-1].end_offset > server.image.offset)
        before = snapshots(tmp_path)
        topics(node)
        assert snapshots(tmp_path) == before


def test_snapshots_above_the_retention_size_are_removed(tmp_path: Path) -> None:
    with Node(tmp_path, {**SMALL, "metadata.max.retention.bytes": "100"}) as node:
        for number in range(30):
            create(node, f"topic-{number}")
    assert len(snapshots(tmp_path)) == 1
    with Node(tmp_path) as node:
        assert len(topics(node)) == 30


def leave(data: Path, *records: Message) -> None:
    """Append the last records of an earlier controller."""
    (path,) = (data / "__cluster_metadata-0").glob("*.log")
    *_, (_, last) = iter_batches(path.read_bytes())
    with path.open("ab") as file:
        file.write(metadata_batch(records, last.next_offset, last.partition_leader_epoch, 0))


def test_start_aborts_the_open_transaction_of_an_earlier_controller(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        create(node, "before")
    leave(
        tmp_path,
        BeginTransactionRecord(name="left"),
        TopicRecord(name="half", topic_id=Uuid.random()),
    )
    with Node(tmp_path) as node:
        create(node, "after")
    with Node(tmp_path) as node:
        assert topics(node) == {"before", "after"}


def test_start_fences_the_other_brokers_of_the_log_after_their_session(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        create(node, "before")
        assert node.server is not None
        topic_id = node.server.image.topics_by_name["before"].id
    point = RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=1)
    other = RegisterBrokerRecord(broker_id=2, broker_epoch=7, end_points=[point], fenced=False)
    led = PartitionChangeRecord(
        topic_id=topic_id,
        partition_id=0,
        replicas=[2, 1],
        isr=[2],
        leader=2,
        eligible_leader_replicas=[1],
    )
    leave(tmp_path, other, led)
    times = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}
    with Node(tmp_path, config=times) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        wait_until(lambda: list(admin.list_topics(timeout=60).brokers) == [1])
        create(node, "after")
        found = admin.list_topics(timeout=60)
        for topic in ("before", "after"):
            assert {each.leader for each in found.topics[topic].partitions.values()} == {1}
