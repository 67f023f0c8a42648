"""`LogCleaner` in a running node: logs that it cannot clean, and helper processes that end."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.log.helper_framing import CLEAN_JOB
from barnabas.protocol.batches.compression import Buffer
from barnabas.server.monitoring.metrics import Metrics
from barnabas.server.storage.helper_process import HelperProcess
from barnabas.testing import Node
from barnabas.testing.eventually import wait_until
from tests.processes import refuse_first

# The base offset at the start of a segment's file names.
FIRST = "0" * 20


@pytest.fixture
def node() -> Iterator[Node]:
    config = {"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0.01"}
    with Node(config=config) as node:
        yield node


def fill(node: Node, *topics: str, before: Callable[[Path], object] = lambda _: None) -> None:
    """Fill two segments of each topic with records of one key.

    `before` is called with the log's directory when the second segment has begun.
    """
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    config = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    for future in admin.create_topics([NewTopic(t, 1, 1, config=config) for t in topics]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
    for topic in topics:
        for number in range(300):
            if number == 250:
                assert producer.flush(60) == 0
                before(node.data / f"{topic}-0")
            producer.produce(topic, b"%04d" % number * 2000, key=b"k")
        assert producer.flush(60) == 0


def first_size(node: Node, topic: str) -> int:
    return (node.data / f"{topic}-0" / f"{FIRST}.log").stat().st_size


def is_clean(node: Node, topic: str) -> bool:
    """True when the first segment has been replaced by a small one.

    A swap renames the old file before the new file gets its name, so no file has the name for a
    moment.
    """
    try:
        return first_size(node, topic) < 100_000
    except FileNotFoundError:
        return False


def cleaner(node: Node) -> Any:
    assert node.server is not None
    return node.server.background.log_cleaner


def metrics(node: Node) -> str:
    assert node.server is not None
    return Metrics(node.server).text().decode()


def rot(directory: Path) -> None:
    """Change one byte of a record."""
    fd = os.open(directory / f"{FIRST}.log", os.O_WRONLY)
    os.pwrite(fd, b"!", 5_000)
    os.close(fd)


def test_cleaner_marks_a_log_with_a_corrupt_record_and_cleans_the_others(node) -> None:
    fill(node, "rotten", before=rot)
    size = first_size(node, "rotten")
    wait_until(lambda: cleaner(node).counts.given_up == 1)
    fill(node, "sound")
    wait_until(lambda: is_clean(node, "sound"))
    assert first_size(node, "rotten") == size
    assert cleaner(node).counts.given_up == 1
    assert not list((node.data / "rotten-0").glob("*.cleaned"))
    text = metrics(node)
    directory = f'{{directory="{node.data}"}}'
    assert f"barnabas_cleaner_uncleanable_partitions{directory} 1.0" in text
    assert f"barnabas_cleaner_uncleanable_bytes{directory} 2" in text
    assert 'barnabas_cleaner_passes_total{outcome="given_up"} 1.0' in text


def test_cleaner_retries_after_an_error_of_the_system(node) -> None:
    def obstruct(directory: Path) -> None:
        (directory / f"{FIRST}.log.cleaned").mkdir()

    fill(node, "t", before=obstruct)
    wait_until(lambda: cleaner(node).counts.retried == 1)
    assert "barnabas_cleaner_retrying_partitions 1.0" in metrics(node)
    (node.data / "t-0" / f"{FIRST}.log.cleaned").rmdir()
    wait_until(lambda: is_clean(node, "t"))
    wait_until(lambda: "barnabas_cleaner_retrying_partitions 0.0" in metrics(node))


def test_cleaner_retries_with_a_new_helper_after_a_kill(node, monkeypatch) -> None:
    killed: list[int] = []
    send = HelperProcess.send

    async def send_and_kill(
        helper: HelperProcess, job: dict[str, Any], payload: Buffer = b""
    ) -> None:
        await send(helper, job, payload)
        if not killed and job["job"] == CLEAN_JOB:
            killed.append(helper.pid)
            os.kill(killed[0], 9)

    monkeypatch.setattr(HelperProcess, "send", send_and_kill)
    fill(node, "t")
    wait_until(lambda: is_clean(node, "t"))
    assert (len(killed), cleaner(node).counts.retried) == (1, 1)


def test_cleaner_retries_when_a_helper_cannot_be_started(node, monkeypatch) -> None:
    refused = refuse_first(monkeypatch, "cleaning")
    fill(node, "t")
    wait_until(lambda: is_clean(node, "t"))
    assert (len(refused), cleaner(node).counts.retried) == (1, 1)


def test_cleaner_runs_one_helper_per_thread_each_with_its_part_of_the_limits(monkeypatch) -> None:
    jobs: list[dict[str, Any]] = []
    at_once: list[int] = []
    send = HelperProcess.send

    async def send_and_note(
        helper: HelperProcess, job: dict[str, Any], payload: Buffer = b""
    ) -> None:
        if job["job"] == CLEAN_JOB:
            jobs.append(job)
            at_once.append(len(cleaner(node)._busy))
        await send(helper, job, payload)

    monkeypatch.setattr(HelperProcess, "send", send_and_note)
    config = {
        "log.cleaner.threads": "3",
        "log.cleaner.io.buffer.size": "600000",
        "log.cleaner.backoff.ms": "50",
        "log.cleaner.io.max.bytes.per.second": "12000000",
    }
    with Node(config=config) as node:
        topics = [f"t{number}" for number in range(5)]
        fill(node, *topics)
        wait_until(lambda: all(is_clean(node, topic) for topic in topics))
    assert max(at_once) == 3
    assert {job["buffer_bytes"] for job in jobs} == {100_000}
    assert {job["bytes_per_second"] for job in jobs} == {4_000_000}
    assert {job["directory"][-4:] for job in jobs} == {f"{topic}-0" for topic in topics}
