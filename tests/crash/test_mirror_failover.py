"""A mirror equals its source over kill -9 of its leaders, under a flow that sends all the time."""

import threading
from bisect import bisect_left
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.protocol.batches.batch_header import iter_batches, read_header
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing.batches import batch, marker
from barnabas.testing.eventually import wait_until
from barnabas.testing.mirrored import placed
from barnabas.testing.process import ClusterProcess
from compat_tests.wire import call
from tests.server import mirror_flow

pytestmark = pytest.mark.timeout(180)

BATCHES = 900
PER_REQUEST = 3
KILLS = 2


def source_log() -> list[bytes]:
    """Return batches with gaps, and with transactions of which every second one is aborted."""
    found: list[bytes] = []
    offset = 0
    for number in range(BATCHES // 3):
        offset += number % 4
        for data in (
            batch(b"%d" % number, producer=(7, 0, 3 * number)),
            batch(
                b"t%d" % number, b"u%d" % number, producer=(8, 0, 2 * number), transactional=True
            ),
            marker(8, commit=number % 2 > 0),
        ):
            found.append(placed(data, offset))
            offset = read_header(found[-1]).next_offset
    return found


def records_of(batches: list[bytes], *, committed: bool) -> list[tuple[int, bytes]]:
    """Return what a consumer of the source reads."""
    found: list[tuple[int, bytes]] = []
    for number, data in enumerate(batches):
        ((_, header),) = iter_batches(data)
        is_aborted = header.is_transactional and number // 3 % 2 == 0
        if not header.is_control and not (committed and is_aborted):
            found += [(each.offset, each.value or b"") for each in read_records(data, 0, header)]
    return found


class Flow:
    """Copies the source in a thread, from the target's end on, until all is there."""

    def __init__(self, cluster: ClusterProcess, source: list[bytes]) -> None:
        self._addresses = [node.bootstrap for node in cluster.nodes.values()]
        self._source = source
        self._starts = [read_header(each).base_offset for each in source]
        self.acknowledged = 0
        self.is_lossy = False
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until all is copied."""
        self._thread.join(90)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while self.acknowledged < len(self._source):
            try:
                self._copy(self.leader())
            except (OSError, EOFError, AssertionError) as error:
                self.failures.append(repr(error))

    def leader(self) -> str:
        """Return the leader's address. Raises OSError when no node that answers has one."""
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="m")])
        for address in self._addresses:
            try:
                answer: Any = call(address, asked, 12)
            except (OSError, EOFError):
                continue
            number = answer.topics[0].partitions[0].leader_id
            for broker in answer.brokers:
                if broker.node_id == number:
                    return f"{broker.host}:{broker.port}"
        raise OSError("no leader")

    def _copy(self, leader: str) -> None:
        position = mirror_flow.offset(leader, mirror_flow.LATEST)
        first = bisect_left(self._starts, position)
        self.is_lossy = self.is_lossy or first < self.acknowledged
        sent = self._source[first : first + PER_REQUEST]
        answer = mirror_flow.copy(leader, sent, position)
        if answer.error_code == ErrorCode.NONE:
            self.acknowledged = first + len(sent)


def read(bootstrap: str, isolation: str) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("m", 0, 0)])
    found: list[tuple[int, bytes]] = []
    while True:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return found
        found.append((message.offset(), message.value()))


def test_mirror_equals_its_source_when_its_leaders_are_killed() -> None:
    source = source_log()
    with ClusterProcess(3, config={"min.insync.replicas": "2"}) as cluster:
        first = next(iter(cluster.nodes.values()))
        assert mirror_flow.create_mirror(first.bootstrap, replicas=3) == 0
        flow = Flow(cluster, source)
        for number in range(1, KILLS + 1):
            wait_until(lambda enough=number * BATCHES // 4: flow.acknowledged >= enough, 60)
            address = flow.leader()
            node = next(each for each in cluster.nodes.values() if each.bootstrap == address)
            node.kill()
            node.start()
        flow.join()
        assert not flow.is_lossy
        for isolation in ("read_uncommitted", "read_committed"):
            expected = records_of(source, committed=isolation == "read_committed")
            assert read(cluster.bootstrap, isolation) == expected
    assert flow.failures, "no request met a kill"
