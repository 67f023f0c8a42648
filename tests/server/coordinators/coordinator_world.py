"""A broker without its listeners, for tests of what its coordinators do with their partitions."""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from barnabas.clock import Clock
from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.config import NodeConfig, TopicConfig
from barnabas.config.subscriptions import ConfigSubscriptions
from barnabas.log import LogConfig, LogManager
from barnabas.log.checkpoints import MetaProperties
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.server.coordinators.group_service import GroupCoordinator, assignors_of
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from barnabas.server.coordinators.transactions.transaction_service import TransactionCoordinator
from barnabas.server.replication.commit_wait import CommitWaits
from tests.cluster.states import CLUSTER_ID, Cluster
from tests.log.logs import open_volume

OTHER = 2


class World:
    """Broker 1 of two; the other one replicates its partitions when the test says so."""

    def __init__(self, path: Path) -> None:
        volume = open_volume(path)
        self.config = NodeConfig.load(
            None,
            {
                "transaction.state.log.num.partitions": "1",
                "offsets.topic.num.partitions": "1",
                "group.initial.rebalance.delay.ms": "3000",  # a first join waits
            },
        )
        self.settings = ConfigSubscriptions(self.config)
        cluster = Cluster(brokers=2)
        (directory,) = cluster.image.brokers[1].directories
        volume.write_properties(MetaProperties(CLUSTER_ID, 1, directory))
        for topic in ("t", TRANSACTION_TOPIC, OFFSETS_TOPIC):
            assert not cluster.create(topic, partitions=4, replicas=2).error_code
        self.image = cluster.image
        self.node_id = 1
        logs = LogManager([volume], volume, LogConfig.from_topic(TopicConfig(self.config)))
        self.clock = Clock(lambda: self.now_ms(), self.monotonic_ms)
        self.replicas = ReplicaManager(
            1,
            logs,
            config=lambda: self.config,
            clock=self.clock,
        )
        self.replicas.apply(self.image)
        self.subscribers: list[Callable[..., None]] = []
        self.commits = CommitWaits(self.flush)
        shared: Any = (
            self.replicas,
            self,  # the source of metadata
            lambda: self.config,
            self.commits,
            self.clock,
        )
        self.groups = GroupCoordinator(*shared, assignors=assignors_of(self.config))
        producer_ids: Any = SimpleNamespace(next=self.next_producer_id)
        self.transactions = TransactionCoordinator(
            *shared, groups=self.groups, producer_ids=producer_ids
        )
        self.markers = self.transactions.local_markers

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def monotonic_ms(self) -> int:
        """The clock of the trio run; 0 before it."""
        try:
            return int(trio.current_time() * 1000)
        except RuntimeError:
            return 0

    def subscribe(self, _name: str, callback: Callable[..., None]) -> None:
        self.subscribers.append(callback)

    async def flush(self, partition: Partition) -> bool:
        partition.log.flush()
        return True

    async def next_producer_id(self) -> int:
        return 7

    def led(self, topic: str) -> Partition:
        return next(
            each for each in self.replicas.partitions() if each.topic == topic and each.is_leader
        )

    def replicate(self, *topics: str) -> None:
        """The other broker has everything of these topics."""
        for each in self.replicas.partitions():
            if each.topic in topics and each.is_leader:
                end = each.log.log_end_offset
                each.follower_fetched(OTHER, end, 0)

    def id_here(self) -> str:
        """A transactional id that is coordinated here."""
        led = {
            each.partition
            for each in self.replicas.partitions()
            if each.topic == TRANSACTION_TOPIC and each.is_leader
        }
        return next(
            name
            for name in (f"x{i}" for i in range(100))
            if self.transactions.partition_of(name) in led
        )


def run(test: Callable[..., Any], *arguments: Any) -> None:
    trio.run(test, *arguments, clock=MockClock(autojump_threshold=0.01))


class Asked:
    """A request in a separate task."""

    def __init__(self, nursery: trio.Nursery, request: Callable[[], Any]) -> None:
        self.answers: list[Any] = []
        self._request = request
        nursery.start_soon(self._run)

    async def _run(self) -> None:
        try:
            self.answers.append(await self._request())
        except KafkaError as error:
            self.answers.append(error.code)


async def start(world: World, nursery: trio.Nursery) -> None:
    await nursery.start(world.commits.run)
    await nursery.start(world.groups.run)
    await nursery.start(world.transactions.run)
    await wait_all_tasks_blocked()


def marker(topic: str, partition: int, **fields: Any) -> WriteTxnMarkersRequest:
    named = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])
    defaults = {"producer_id": 7, "producer_epoch": 1, "transaction_result": True}
    return WriteTxnMarkersRequest(
        markers=[WriteTxnMarkersRequest.WritableTxnMarker(topics=[named], **(defaults | fields))]
    )


def code_of(response: WriteTxnMarkersResponse) -> ErrorCode:
    return ErrorCode(response.markers[0].topics[0].partitions[0].error_code)
