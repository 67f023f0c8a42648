"""A node with failing disks: one of two directories goes offline alone, the last ends the node."""

import errno
import os
import resource
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.log import LogManager, PartitionLog
from barnabas.log.directories.log_relocation import LogRelocation
from barnabas.log.segment.log_segment import Segment
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.server.node_failures import DisksLostError, StartupError
from barnabas.server.storage.relocation_worker import RelocationWorker
from barnabas.testing import Node
from barnabas.testing.eventually import wait_until
from barnabas.testing.node_process_control import NodeProcess

EXIT_TIMEOUT_S = 60


def produce(bootstrap: str, partition: int, value: bytes, timeout_ms: int = 8000) -> str | None:
    """Write one record. Return the error's name, None when it was acknowledged."""
    outcome: list[str | None] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms, "log_level": 0}
    )
    producer.produce(
        "t",
        value,
        partition=partition,
        on_delivery=lambda error, _: outcome.append(error.name() if error else None),
    )
    producer.flush(30)
    return outcome[0]


def create(bootstrap: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", partitions, 1)])["t"].result(60)


def create_compacted(bootstrap: str, partitions: int) -> None:
    config = {"cleanup.policy": "compact"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("table", partitions, 1, config=config)])["table"].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(partitions):
        producer.produce("table", b"value", key=b"key", partition=partition)
    assert producer.flush(60) == 0


def leaders(bootstrap: str) -> dict[int, tuple[int, str | None]]:
    """Return the leader and the error name of each partition from a Metadata request."""
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics("t", timeout=60).topics["t"]
    return {
        number: (partition.leader, partition.error.name() if partition.error else None)
        for number, partition in topic.partitions.items()
    }


def values(bootstrap: str, count: int, partition: int = 0) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition("t", partition, 0)])
    found = [message.value() for message in consumer.consume(count, timeout=60)]
    consumer.close()
    return found


def test_failure_of_one_directory_does_not_affect_the_other(
    tmp_path: Path, monkeypatch, caplog
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    node = Node(first)
    node._properties["log.dirs"] = f"{first},{second}"
    rounds = ("log.retention.check", "log.flush.scheduler", "log.flush")
    node._properties.update({f"{name}.interval.ms": "50" for name in rounds})
    node._properties["log.cleaner.backoff.ms"] = "50"
    with node:
        create(node.bootstrap, 2)
        create_compacted(node.bootstrap, 2)
        for partition in (0, 1):
            assert produce(node.bootstrap, partition, b"before") is None
        [bad] = [number for number in (0, 1) if (second / f"t-{number}").exists()]
        good = 1 - bad
        real = os.pwrite

        def pwrite(fd: int, data: bytes, at: int) -> int:
            if str(second) in os.readlink(f"/proc/self/fd/{fd}"):
                raise OSError(errno.EIO, "I/O error")
            return real(fd, data, at)

        monkeypatch.setattr(os, "pwrite", pwrite)
        assert produce(node.bootstrap, bad, b"lost", timeout_ms=1500) is not None
        monkeypatch.undo()
        assert produce(node.bootstrap, bad, b"lost", timeout_ms=1500) is not None, (
            "offline until a restart"
        )
        assert produce(node.bootstrap, good, b"fine") is None
        assert leaders(node.bootstrap) == {good: (1, None), bad: (-1, "LEADER_NOT_AVAILABLE")}
        assert node.server is not None
        [ours] = [volume for volume in node.server.logs.volumes if volume.path == first]
        assert node.server.image.brokers[1].directories == (ours.directory_id,)
        assert not node.server.is_stopping
        assert caplog.text.count("log directory offline") == 1
        for told in ("retention failed", "cannot compact", "flush failed"):
            assert told not in caplog.text, "offline logs are skipped"
    assert (first / ".kafka_cleanshutdown").exists()
    assert not (second / ".kafka_cleanshutdown").exists()
    with node:
        assert leaders(node.bootstrap) == {0: (1, None), 1: (1, None)}
        assert produce(node.bootstrap, bad, b"again") is None, "a disk that works again is used"


def test_metadata_have_the_directory_of_each_replica(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    node = Node(first)
    node._properties["log.dirs"] = f"{first},{second}"
    with node:
        create(node.bootstrap, 4)
        wait_until(lambda: None not in assigned(node).values())
        assert sorted(assigned(node).values()) == [first, first, second, second]
        before = assigned(node)
        for partition in range(4):
            assert produce(node.bootstrap, partition, b"x") is None
        assert {n: path for n in range(4) for path in (first, second) if lies(path, n)} == before
        there = second if before[0] == first else first
        ask_to_move(node.port, there)
        wait_until(lambda: assigned(node) == {**before, 0: there})
    with node:
        assert assigned(node) == {**before, 0: there}
    # Remove a directory within the block.
    second.rename(tmp_path / "away")
    second.write_text("a file, not a directory")
    with node:
        expected = {
            n: (1, None) if path == first else (-1, "LEADER_NOT_AVAILABLE")
            for n, path in {**before, 0: there}.items()
        }
        assert leaders(node.bootstrap) == expected
        for number, (leader, _) in expected.items():
            if leader == -1:
                assert produce(node.bootstrap, number, b"x", timeout_ms=500) is not None
                ask_to_move(node.port, first, number, code=56)
    second.unlink()
    (tmp_path / "away").rename(second)
    with node:
        assert leaders(node.bootstrap) == dict.fromkeys(range(4), (1, None))
        for partition in range(4):
            assert produce(node.bootstrap, partition, b"y") is None


def test_directory_that_comes_back_does_not_hide_a_topic_created_again(tmp_path: Path) -> None:
    """Its log of the deleted topic has more records than the log of the new topic."""
    first, second = tmp_path / "first", tmp_path / "second"
    node = Node(first)
    node._properties["log.dirs"] = f"{first},{second}"
    with node:
        create(node.bootstrap, 2)
        for partition in (0, 1, 0, 1):
            assert produce(node.bootstrap, partition, b"old") is None
    (number,) = (each for each in (0, 1) if lies(second, each))
    second.rename(tmp_path / "away")
    second.write_text("a file, not a directory")
    with node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.delete_topics(["t"])["t"].result(60)
        create(node.bootstrap, 2)
        assert produce(node.bootstrap, number, b"new") is None
    second.unlink()
    (tmp_path / "away").rename(second)
    with node:
        assert values(node.bootstrap, 1, number) == [b"new"]
        assert lies(first, number)
        assert not lies(second, number)


def lies(path: Path, number: int) -> bool:
    return (path / f"t-{number}").exists()


def assigned(node: Node) -> dict[int, Path | None]:
    """Return the directory of each partition in the metadata."""
    assert node.server is not None
    paths = {volume.directory_id: volume.path for volume in node.server.logs.volumes}
    partitions = node.server.image.topics_by_name["t"].partitions
    return {number: paths.get(image.directory(1)) for number, image in partitions.items()}


def test_node_without_an_online_directory_ends_and_acknowledges_nothing() -> None:
    """A file size limit simulates a full disk: every write above it fails."""
    with NodeProcess() as node:
        create(node.bootstrap, 1)
        for number in range(20):
            assert produce(node.bootstrap, 0, b"%d" % number) is None
        process = node._process
        [log] = (node.data / "t-0").glob("*.log")
        limit = log.stat().st_size + 10
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (limit, limit))
        assert produce(node.bootstrap, 0, b"x" * 100, timeout_ms=2000) is not None
        deadline = time.monotonic() + EXIT_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process.poll() == 1
        told = "".join(node.log)
        assert "log directory offline" in told
        assert "barnabas: the quorum's log in " in told
        assert "Traceback" not in told
        assert not (node.data / ".kafka_cleanshutdown").exists()
        node.kill()
        node.start()
        assert values(node.bootstrap, 20) == [b"%d" % number for number in range(20)]
        assert produce(node.bootstrap, 0, b"after") is None


def test_node_whose_quorum_cannot_write_logs_one_line(tmp_path, monkeypatch) -> None:
    def refuse(segment: Segment) -> None:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(Segment, "sync_batches", refuse)
    with pytest.raises(DisksLostError, match=r"the quorum's log in .* cannot be used: .*I/O error"):
        Node(tmp_path).start()


def test_start_skips_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    second.write_text("a file, not a directory")
    node = Node(first)
    node._properties["log.dirs"] = f"{first},{second}"
    with node:
        create(node.bootstrap, 2)
        assert produce(node.bootstrap, 1, b"x") is None
    node = Node(second)
    with pytest.raises(Exception, match=f"cannot use {second}: it is a file"):
        node.start()


def ask(port: int, request: Message, version: int, response_type: type[Message]) -> Message:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for part in encode_request(1, "test", request, version):
            connection.sendall(part)
        stream = connection.makefile("rb")
        size = int.from_bytes(stream.read(4), "big")
        body = stream.read(size)
    return response_type.decode(body[5:], version)


def ask_to_move(port: int, path: Path, number: int = 0, code: int = 0) -> None:
    topic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name="t", partitions=[number])
    move = AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=str(path), topics=[topic])
    request = AlterReplicaLogDirsRequest(dirs=[move])
    answer = ask(port, request, 2, AlterReplicaLogDirsResponse)
    assert [p.error_code for p in answer.results[0].partitions] == [code]


def test_move_interrupted_by_a_kill_resumes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with NodeProcess(f"{first},{second}", {"log.segment.bytes": "4194304"}) as node:
        create(node.bootstrap, 1)
        count, resumed = 0, 0
        for round_ in range(4):
            producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
            for _ in range(2000):
                producer.produce("t", b"%06d" % count * 1000, partition=0)
                count += 1
            assert producer.flush(60) == 0
            there = second if (first / "t-0").exists() else first
            ask_to_move(node.port, there)
            time.sleep(0.008 * round_)
            node.kill()
            interrupted = bool(list(there.glob("t-0.*-future")))
            node.log.clear()
            node.start()
            deadline = time.monotonic() + 60
            while interrupted and not any("moved log=" in line for line in node.log):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            resumed += any("resuming interrupted move" in line for line in node.log)
            assert not list(tmp_path.glob("*/*-future"))
            found = values(node.bootstrap, count)
            assert found == [b"%06d" % number * 1000 for number in range(count)]
        assert resumed > 0


@pytest.mark.parametrize("moment", ["told", "switched"])
def test_kill_during_a_move_with_a_failed_directory_creates_no_new_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """KIP-858: the metadata name the new directory before the switch."""
    first, second = tmp_path / "first", tmp_path / "second"
    node, finish = Node(first), LogRelocation.finish
    node._properties["log.dirs"] = f"{first},{second}"
    killed = tmp_path / "killed"

    def finish_and_copy(move: LogRelocation) -> None:
        if moment == "switched":
            finish(move)
        for path in (first, second):
            shutil.copytree(path, killed / path.name)
        if moment == "told":
            finish(move)

    monkeypatch.setattr(LogRelocation, "finish", finish_and_copy)
    with node:
        create(node.bootstrap, 2)
        for number in (0, 1):
            for value in (b"one", b"two"):
                assert produce(node.bootstrap, number, value) is None
        # The lost directory is not the one with the metadata log.
        number = next(n for n in (0, 1) if lies(first if moment == "switched" else second, n))
        ask_to_move(node.port, second if moment == "switched" else first, number)
        wait_until(lambda: lies(second if moment == "switched" else first, number))
    shutil.rmtree(killed / "second")
    (killed / "second").write_bytes(b"no directory")
    again = Node(killed / "first")
    again._properties["log.dirs"] = f"{killed / 'first'},{killed / 'second'}"
    with again:
        if moment == "switched":
            assert leaders(again.bootstrap)[number] == (-1, "LEADER_NOT_AVAILABLE")
            assert not lies(killed / "first", number)
        else:
            wait_until(lambda: lies(killed / "first", number))
            assert produce(again.bootstrap, number, b"three") is None
            assert values(again.bootstrap, 3, number) == [b"one", b"two", b"three"]


def test_move_requested_before_the_worker_runs_is_started(tmp_path, monkeypatch) -> None:
    asked = threading.Event()
    run = RelocationWorker.run

    async def run_late(mover: RelocationWorker) -> None:
        await trio.to_thread.run_sync(asked.wait, abandon_on_cancel=True)
        await run(mover)

    monkeypatch.setattr(RelocationWorker, "run", run_late)
    first, second = tmp_path / "first", tmp_path / "second"
    node = Node(first)
    node._properties["log.dirs"] = f"{first},{second}"
    with node:
        create(node.bootstrap, 1)
        assert produce(node.bootstrap, 0, b"v") is None
        there = second if lies(first, 0) else first
        ask_to_move(node.port, there)
        asked.set()
        wait_until(lambda: lies(there, 0))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_flush_messages_applies_to_any_acks(acks) -> None:
    with Node(config={"log.flush.interval.messages": "1"}) as node:
        create(node.bootstrap, 1)
        producer = Producer({"bootstrap.servers": node.bootstrap, "acks": acks})
        producer.produce("t", b"v")
        assert producer.flush(60) == 0
        assert node.server is not None
        logs = node.server.logs
        wait_until(lambda: (log := logs.known("t", 0)) is not None and log.recovery_point == 1)


def test_flush_that_runs_when_the_node_stops_ends_before_the_logs_close(monkeypatch) -> None:
    began = threading.Event()
    order: list[str] = []
    flush, close = PartitionLog.flush, LogManager.close

    def slow(log: PartitionLog) -> None:
        if log.topic == "t":
            began.set()
            time.sleep(0.5)
            order.append("flushed")
        flush(log)

    def close_and_note(manager: LogManager, clean: bool) -> None:
        order.append("logs closed")
        close(manager, clean)

    monkeypatch.setattr(PartitionLog, "flush", slow)
    monkeypatch.setattr(LogManager, "close", close_and_note)
    with Node(config={"log.flush.interval.messages": "1"}) as node:
        create(node.bootstrap, 1)
        producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "0"})
        producer.produce("t", b"v")
        assert producer.flush(60) == 0
        assert began.wait(60)
    assert order == ["flushed", "logs closed"]


def test_failed_write_of_a_topic_id_takes_only_its_directory_offline(tmp_path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    node = Node(first)
    node._properties["log.dirs"] = f"{first},{second}"
    with node:
        create(node.bootstrap, 2)
        for partition in (0, 1):
            assert produce(node.bootstrap, partition, b"before") is None
    [bad] = [number for number in (0, 1) if lies(second, number)]
    metadata = second / f"t-{bad}" / "partition.metadata"
    metadata.unlink()
    metadata.mkdir()
    with node:
        expected = {1 - bad: (1, None), bad: (-1, "LEADER_NOT_AVAILABLE")}
        wait_until(lambda: leaders(node.bootstrap) == expected)
        assert produce(node.bootstrap, 1 - bad, b"after") is None


def test_partition_written_meanwhile_moves_between_directories(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    node = Node(first)
    node._properties["log.dirs"] = f"{first},{second}"
    with node:
        create(node.bootstrap, 1)
        acked: list[bytes] = []
        settings = {"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "linger.ms": 0}
        producer = Producer({**settings, "log_level": 0})
        count = 1500
        for number in range(count):
            producer.produce(
                "t",
                b"%d" % number,
                partition=0,
                on_delivery=lambda error, message: None if error else acked.append(message.value()),
            )
            producer.poll(0.001)
            if number % 150 == 100:
                here = first if (first / "t-0").exists() else second
                ask_to_move(node.port, second if here is first else first)
        assert producer.flush(60) == 0
        assert acked == [b"%d" % each for each in range(count)]
        assert values(node.bootstrap, count) == acked
        assert (first / "t-0").exists() != (second / "t-0").exists()
    with node:
        assert values(node.bootstrap, count) == acked


@pytest.mark.parametrize(
    "name",
    [
        "log-start-offset-checkpoint",
        "__cluster_metadata-0/quorum-state",
        "__cluster_metadata-0/leader-epoch-checkpoint",
        "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
    ],
)
def test_unusable_directory_is_named_in_the_error(tmp_path: Path, name: str) -> None:
    with Node(tmp_path):
        pass
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    with pytest.raises(StartupError, match=f"cannot .*Is a directory.*{name}"):
        Node(tmp_path).start()
