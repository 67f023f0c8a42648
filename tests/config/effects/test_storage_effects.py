"""Properties of background work on logs, observed on files, helper processes and threads."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from barnabas.log import PartitionLog
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.server.storage.helper_process import HelperProcess
from barnabas.testing import Node
from tests.config.effects.observed import observes
from tests.config.effects.wire import (
    BROKER,
    Wire,
    alter,
    batch,
    create,
    eventually,
    happens,
    node_with,
    produce,
)

SMALL = {"segment_bytes": "1048576"}


def fill(wire: Wire, segments: int = 2, **settings: Any) -> None:
    for _ in range(segments * 2 + 1):
        assert produce(wire, batch(b"v" * 500_000, **settings)) == 0


@observes("log.retention.check.interval.ms")
def test_old_segments_are_deleted_at_the_interval() -> None:
    for interval_ms, is_deleted in (("30", True), ("300000", False)):
        with node_with({"log.retention.check.interval.ms": interval_ms}) as (node, wire):
            create(wire, retention_bytes="1", **SMALL)
            fill(wire)
            deleted = happens(
                lambda node=node: list(node.data.glob("t-0/*.deleted")), expected=is_deleted
            )
            assert deleted is is_deleted


@observes("log.initial.task.delay.ms")
def test_old_segments_are_deleted_first_after_the_initial_delay(tmp_path: Path) -> None:
    for delay_ms, is_deleted in (("0", True), ("300000", False)):
        data = tmp_path / delay_ms
        with Node(data) as node:
            wire = Wire(node.port)
            create(wire, retention_bytes="1", **SMALL)
            fill(wire)
        with Node(data, {"log.initial.task.delay.ms": delay_ms}):
            deleted = happens(
                lambda data=data: list(data.glob("t-0/*.deleted")), expected=is_deleted
            )
            assert deleted is is_deleted


@observes("log.flush.offset.checkpoint.interval.ms")
def test_recovery_points_are_written_at_the_interval() -> None:
    for interval_ms, is_written in (("30", True), ("60000", False)):
        config = {"log.flush.offset.checkpoint.interval.ms": interval_ms}
        with node_with({**config, "log.flush.interval.messages": "1"}) as (node, wire):
            create(wire)
            produce(wire)
            checkpoint = node.data / "recovery-point-offset-checkpoint"
            written = happens(
                lambda file=checkpoint: file.exists() and "t 0 1" in file.read_text(),
                expected=is_written,
            )
            assert written is is_written


@observes("log.flush.scheduler.interval.ms")
def test_logs_are_synced_by_time_at_the_interval() -> None:
    for interval_ms, is_synced in (("30", True), ("60000", False)):
        with node_with({"log.flush.scheduler.interval.ms": interval_ms}) as (node, wire):
            create(wire, flush_ms="10")
            produce(wire)
            assert node.server is not None
            log = node.server.logs.get("t", 0)
            assert log is not None
            assert happens(lambda log=log: log.recovery_point == 1, expected=is_synced) is is_synced


@observes("num.recovery.threads.per.data.dir")
def test_logs_are_recovered_by_as_many_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Node(tmp_path) as node:
        create(Wire(node.port), partitions=4)
        for number in range(4):
            produce(Wire(node.port), partition=number)
        node.kill()
    for threads in (1, 3):
        most = calls_at_a_time(monkeypatch, "load", expected=threads)
        with Node(tmp_path, {"num.recovery.threads.per.data.dir": str(threads)}) as node:
            node.kill()
        assert max(most) == threads


@observes("num.recovery.threads.per.data.dir", dynamic=True)
def test_changed_recovery_threads_close_as_many_logs_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = calls_at_a_time(monkeypatch, "close", expected=2)
    with node_with({"num.recovery.threads.per.data.dir": "1"}) as (_, wire):
        create(wire, partitions=6)
        for partition in range(6):
            produce(wire, partition=partition)
        changed = alter(wire, "num.recovery.threads.per.data.dir", "2", resource=(BROKER, ""))
        assert changed == 0
    assert max(most) == 2


def calls_at_a_time(monkeypatch: pytest.MonkeyPatch, method: str, *, expected: int) -> list[int]:
    """Return a list that gets, for each call on a log of `t`, how many threads are in the method.

    The first calls wait until the expected number is reached: a busy machine starts threads late.
    """
    call = getattr(PartitionLog, method)
    active: set[int] = set()
    found: list[int] = []
    reached = threading.Event()

    def slow(log: PartitionLog, **arguments: Any) -> None:
        if log.topic != "t":
            call(log, **arguments)
            return
        active.add(threading.get_ident())
        found.append(len(active))
        if found[-1] >= expected:
            reached.set()
        reached.wait(30)
        time.sleep(0.02)  # one more thread than expected would show
        active.discard(threading.get_ident())
        call(log, **arguments)

    monkeypatch.setattr(PartitionLog, method, slow)
    return found


@contextmanager
def jobs_of_helpers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """Record the jobs of compaction and scrubbing that helper processes get."""
    jobs: list[dict[str, Any]] = []
    send = HelperProcess.send

    async def record(helper: HelperProcess, fields: dict[str, Any], payload: Any = b"") -> None:
        if "bytes_per_second" in fields:
            jobs.append(fields)
        await send(helper, fields, payload)

    monkeypatch.setattr(HelperProcess, "send", record)
    yield jobs


CLEANER = {"log.cleaner.backoff.ms": "30", "log.cleaner.min.cleanable.ratio": "0.01"}


@observes(
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
    dynamic=True,
)
@pytest.mark.parametrize("way", ["static", "dynamic"])
def test_cleaning_job_has_the_limits_of_one_helper(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {
        "log.cleaner.dedupe.buffer.size": "2400000",
        "log.cleaner.io.buffer.size": "2000000",
        "log.cleaner.io.buffer.load.factor": "0.5",
        "log.cleaner.io.max.bytes.per.second": "4.0E9",
        "log.cleaner.threads": "2",
    }
    with (
        jobs_of_helpers(monkeypatch) as jobs,
        node_with({**CLEANER, **(limits if way == "static" else {})}) as (_, wire),
    ):
        if way == "dynamic":
            for name, value in limits.items():
                assert alter(wire, name, value) == 0
        create(wire, cleanup_policy="compact", **SMALL)
        fill(wire, keys=[b"k"])
        assert eventually(lambda: jobs)
    job = jobs[0]
    # Each of two helpers has half: 1.2 MB hold 50,000 slots of 24 bytes, of which half are used.
    assert job["buffer_bytes"] == 500_000
    assert job["bytes_per_second"] == 2e9
    assert job["slots"] <= 1_200_000 // 20


@observes("log.cleaner.threads", dynamic=True)
def test_logs_are_not_compacted_without_cleaner_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        jobs_of_helpers(monkeypatch) as jobs,
        node_with({**CLEANER, "log.cleaner.threads": "0"}) as (_, wire),
    ):
        create(wire, cleanup_policy="compact", **SMALL)
        fill(wire, keys=[b"k"])
        assert not happens(lambda: jobs, expected=False)


@observes("log.cleaner.enable", "log.cleaner.backoff.ms")
def test_cleaner_works_when_enabled_after_its_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    for changed, is_compacted in (
        ({}, True),
        ({"log.cleaner.enable": "false"}, False),
        ({"log.cleaner.backoff.ms": "15000"}, False),
    ):
        with (
            jobs_of_helpers(monkeypatch) as jobs,
            node_with({**CLEANER, **changed}) as (_, wire),
        ):
            create(wire, cleanup_policy="compact", **SMALL)
            fill(wire, keys=[b"k"])
            assert happens(lambda jobs=jobs: jobs, expected=is_compacted) is is_compacted


@observes("log.cleaner.backoff.ms", dynamic=True)
def test_changed_backoff_delays_the_next_cleaning(monkeypatch: pytest.MonkeyPatch) -> None:
    with jobs_of_helpers(monkeypatch) as jobs, node_with(CLEANER) as (_, wire):
        assert alter(wire, "log.cleaner.backoff.ms", "15000") == 0
        time.sleep(0.1)
        create(wire, cleanup_policy="compact", **SMALL)
        fill(wire, keys=[b"k"])
        assert not happens(lambda: jobs, expected=False)


@observes("barnabas.scrub.interval.ms", "barnabas.scrub.bytes.per.second")
def test_scrubber_reads_closed_segments_at_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    for interval_ms, rate, is_read in (("30", 777_000_000, True), ("-1", 1, False)):
        config = {
            "barnabas.scrub.interval.ms": interval_ms,
            "barnabas.scrub.bytes.per.second": str(rate),
        }
        with jobs_of_helpers(monkeypatch) as jobs, node_with(config) as (_, wire):
            create(wire)
            produce(wire)
            assert happens(lambda jobs=jobs: jobs, expected=is_read) is is_read
            assert all(job["bytes_per_second"] == rate for job in jobs)


def bad_inside() -> bytearray:
    """Return a batch with a correct crc and a record whose length is wrong."""
    made = batch(b"v")
    made[61] = 0x7E  # the record's length
    made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return made


@observes("barnabas.validate.records")
def test_records_inside_a_batch_are_validated_when_enabled() -> None:
    for enabled, code in (("false", 0), ("true", ErrorCode.INVALID_RECORD)):
        with node_with({"barnabas.validate.records": enabled}) as (_, wire):
            create(wire)
            assert produce(wire, bad_inside()) in (code, ErrorCode.CORRUPT_MESSAGE * bool(code))


@observes("barnabas.decompression.max.bytes")
def test_batch_that_decompresses_to_more_is_refused() -> None:
    for limit, is_refused in (("300000", False), ("50000", True)):
        config = {"barnabas.validate.records": "true", "barnabas.decompression.max.bytes": limit}
        with node_with(config) as (_, wire):
            create(wire)
            code = produce(wire, batch(b"v" * 200_000, codec=Codec.GZIP))
            assert bool(code) is is_refused


@observes("cordoned.log.dirs", dynamic=True)
def test_cordoned_directory_gets_no_new_partitions(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    node = Node(tmp_path, config={"cordoned.log.dirs": str(first)})
    node._properties["log.dirs"] = f"{first},{second}"
    with node:
        wire = Wire(node.port)
        fill_all(wire, "a")
        assert logs_in(first, "a") == 0
        assert logs_in(second, "a") == 4
        assert cordoned(wire) == {str(first): True, str(second): False}
        assert alter(wire, "cordoned.log.dirs", str(tmp_path)) == ErrorCode.INVALID_REQUEST
        assert alter(wire, "cordoned.log.dirs", str(second)) == 0
        assert eventually_cordons(node, second)
        fill_all(wire, "b")
        assert logs_in(first, "b") == 4
        assert move(wire, str(second), "b") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert alter(wire, "cordoned.log.dirs", "*") == 0
        assert eventually(lambda: len(recorded(node)) == 2)
        assert create(wire, "c").startswith(str(int(ErrorCode.INVALID_REPLICATION_FACTOR)))


def fill_all(wire: Wire, topic: str) -> None:
    """Create a topic with four partitions, and a log for each."""
    create(wire, topic, partitions=4)
    for number in range(4):
        assert produce(wire, topic=topic, partition=number) == 0


def logs_in(directory: Path, topic: str) -> int:
    return len(list(directory.glob(f"{topic}-*")))


def recorded(node: Node) -> tuple[Any, ...]:
    """Return the directories that the metadata have as cordoned."""
    assert node.server is not None
    return node.server.image.brokers[1].cordoned_directories


def eventually_cordons(node: Node, directory: Path) -> bool:
    """Wait until the metadata have one directory as cordoned."""
    assert node.server is not None
    (volume,) = (each for each in node.server.logs.volumes if each.path == directory)
    return eventually(lambda: recorded(node) == (volume.directory_id,))


def cordoned(wire: Wire) -> dict[str, bool]:
    """Return whether DescribeLogDirs has each directory as cordoned."""
    results = wire.ask(DescribeLogDirsRequest(topics=None), 5).results
    return {each.log_dir: each.is_cordoned for each in results}


def move(wire: Wire, path: str, topic: str) -> int:
    """Move a replica to a directory; return the error code."""
    request = AlterReplicaLogDirsRequest
    stated = request.AlterReplicaLogDirTopic(name=topic, partitions=[0])
    directory = request.AlterReplicaLogDir(path=path, topics=[stated])
    (result,) = wire.ask(request(dirs=[directory]), 2).results
    return result.partitions[0].error_code


@observes("replica.alter.log.dirs.io.max.bytes.per.second", dynamic=True)
def test_move_between_directories_waits_for_its_rate(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    node = Node(first, {"replica.alter.log.dirs.io.max.bytes.per.second": "1000"})
    node._properties["log.dirs"] = f"{first},{second}"
    with node:
        wire = Wire(node.port)
        create(wire)
        fill(wire, 3)
        (source,) = tmp_path.glob("*/t-0")
        target = first if source.parent == second else second
        assert move(wire, str(target), "t") == 0

        def copy() -> int:
            return sum(each.stat().st_size for each in target.glob("t-0.*-future/*.log"))

        assert eventually(lambda: copy() >= 1000)
        assert not happens(lambda: copy() > 100_000, expected=False)
        assert alter(wire, "replica.alter.log.dirs.io.max.bytes.per.second", str(1 << 40)) == 0
        assert eventually(lambda: (target / "t-0").exists() and not source.exists())


@observes(
    "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds",
)
def test_rate_of_moves_is_measured_over_the_windows(tmp_path: Path) -> None:
    windows = {
        "alter.log.dirs.replication.quota.window.num": "2",
        "alter.log.dirs.replication.quota.window.size.seconds": "3",
    }
    for number, (config, is_remembered) in enumerate((({}, True), (windows, False))):
        with Node(tmp_path / str(number), config=config) as node:
            assert node.server is not None
            quota = node.server.background.relocation_worker.quota
            quota.rate = 1
            quota.record(1_000_000, 1000)
            assert quota.is_exceeded(1000 + 10_000) is is_remembered
