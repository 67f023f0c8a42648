"""A server's answers about transactions whose markers are held back.

The leader of a transaction's partition is paused (SIGSTOP) before the transaction ends, so its
coordinator, another node, stays between the outcome and the last marker. Meanwhile each request of
a client or a broker is sent to the coordinator as it is on the wire.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from barnabas.coordinator.core.routing import partition_for
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import error_code
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.testing.known_brokers import wait_until_topic_known
from compat_tests import wire
from compat_tests.cluster import observation
from compat_tests.cluster.clusters import TrialCluster

CONFIG = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "12",
    "offsets.topic.num.partitions": "12",
    # Nothing of what is paused moves to another node.
    "broker.session.timeout.ms": "120000",
}
TOPIC = "held"
PAUSED, RUNNING = 0, 1
"""The partition whose leader is paused, and the one at the coordinator."""
STRANGER = 1_000_000
_RETRIED = {14, 15, 16, 51, 3, 6, 5}

Producer = tuple[int, int]


@attrs.frozen
class Setting:
    """A cluster's nodes by their part: the one to pause, and the coordinator."""

    cluster: TrialCluster
    paused: int
    coordinator: int

    @property
    def address(self) -> str:
        return self.cluster.addresses[self.coordinator]


def prepare(cluster: TrialCluster) -> Setting:
    """Create the topic, and the internal ones; the quorum's leader is not paused."""
    leader = observation.quorum(cluster.bootstrap.split(",")[0]).leader
    paused, coordinator = [each for each in sorted(cluster.nodes) if each != leader]
    setting = Setting(cluster, paused, coordinator)
    assignment = CreateTopicsRequest.CreatableReplicaAssignment
    topic = CreateTopicsRequest.CreatableTopic(
        name=TOPIC,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            assignment(partition_index=PAUSED, broker_ids=[paused]),
            assignment(partition_index=RUNNING, broker_ids=[coordinator]),
        ],
    )
    wire.call(setting.address, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    wait_until_topic_known(cluster.addresses.values(), TOPIC)
    for kind in (0, 1):
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
        wire.retry(setting.address, request, 4, lambda each: not each.coordinators[0].error_code)
    return setting


def keys_of(setting: Setting, topic: str) -> Iterator[str]:
    """Return ids whose coordinator is the setting's."""

    def leaders() -> dict[int, int]:
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
        (found,) = wire.call(setting.address, request, 9).topics
        return {each.partition_index: each.leader_id for each in found.partitions}

    led = leaders()
    while not led or min(led.values()) < 0:
        time.sleep(0.1)
        led = leaders()
    number = 0
    while True:
        number += 1
        name = f"id-{number}"
        if led[partition_for(name, len(led))] == setting.coordinator:
            yield name


class Requests:
    """The requests about one transactional id; each returns the name of its error."""

    def __init__(
        self, connection: wire.Connection, name: str, group: str, timeout_ms: int = 60_000
    ) -> None:
        self.connection = connection
        self.name = name
        self.group = group
        self.timeout_ms = timeout_ms
        self.producer: Producer = (-1, -1)

    # The way to a state

    def start(self, owner: Producer = (-1, -1)) -> Any:
        """InitProducerId; return its response."""
        return self.connection.call(
            InitProducerIdRequest(
                transactional_id=self.name,
                transaction_timeout_ms=self.timeout_ms,
                producer_id=owner[0],
                producer_epoch=owner[1],
            ),
            5,
        )

    def open(self, version: int) -> None:
        """Begin a transaction with both partitions, by a version of AddPartitionsToTxn."""
        answer = self._until(self.start, lambda each: each.error_code)
        self.producer = answer.producer_id, answer.producer_epoch
        code = ""
        for partition in (PAUSED, RUNNING):
            deadline = time.monotonic() + 120
            while (code := self.add(self.producer, version, partition)) != "NONE":
                assert time.monotonic() < deadline, code
                time.sleep(0.05)

    def bump(self) -> None:
        """Take an epoch, so that one before the next exists."""
        self._until(self.start, lambda each: each.error_code)

    def _until(self, act: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
        deadline = time.monotonic() + 120
        while code_of(answer := act()):
            assert code_of(answer) in _RETRIED, answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)
        return answer

    def describe(self) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        return self.connection.call(request, 0).transaction_states[0]

    def state(self) -> tuple[str, int, int]:
        """Return the state's name, the producer id relative to the first one, and the epoch."""
        found = self.describe()
        return found.transaction_state, found.producer_id - self.producer[0], found.producer_epoch

    # Requests with an error

    def init(self, owner: Producer) -> str:
        return _name(self.start(owner).error_code)

    def end(self, producer: Producer, version: int, *, commit: bool) -> str:
        answer = self.ended(producer, version, commit=commit)
        return _name(answer.error_code)

    def ended(self, producer: Producer, version: int, *, commit: bool) -> Any:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        return self.connection.call(request, version)

    def add(
        self, producer: Producer, version: int, partition: int = RUNNING, *, verify: bool = False
    ) -> str:
        """AddPartitionsToTxn: of a client (up to version 3), or of a broker."""
        topics = [
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])
        ]
        if version <= 3:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            )
            (topic,) = self.connection.call(request, version).results_by_topic_v3_and_below
        else:
            transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=self.name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=verify,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
            (result,) = self.connection.call(request, version).results_by_transaction
            (topic,) = result.topic_results
        return _name(topic.results_by_partition[0].partition_error_code)

    def add_offsets(self, producer: Producer, version: int = 4) -> str:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id=self.group,
        )
        return _name(self.connection.call(request, version).error_code)

    def commit_offsets(self, producer: Producer, version: int) -> str:
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[
                topic(
                    name=TOPIC, partitions=[partition(partition_index=RUNNING, committed_offset=1)]
                )
            ],
        )
        answer = self.connection.call(request, version)
        return _name(answer.topics[0].partitions[0].error_code)

    def produce(self, producer: Producer, version: int) -> str:
        record = Record(offset=0, timestamp=int(time.time() * 1000), key=None, value=b"v")
        batch = build_batch(
            [record],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=0,
            is_transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=RUNNING, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        answer = self.connection.call(request, version)
        return _name(answer.responses[0].partition_responses[0].error_code)


def _name(code: int) -> str:
    return error_code(code).name


@contextmanager
def paused(setting: Setting) -> Iterator[None]:
    """Pause a node."""
    node = setting.cluster.nodes[setting.paused]
    node.suspend()
    try:
        yield
    finally:
        node.resume()
