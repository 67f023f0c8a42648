"""The common part of the coordinators of a node: which partitions they lead, and requests.

A service follows the metadata image. It loads a partition of its topic when this node begins to
lead it, and resigns when the leader epoch ends. A partition that cannot be loaded, or that fails,
is loaded again after a backoff (Kafka: CoordinatorRuntime).
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.coordinator.core.routing import partition_for
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.coordinators.coordinator_clock import CoordinatorClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cluster.metadata.delta import MetadataDelta
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.cluster.replication import ReplicaManager
    from barnabas.config.node_config import NodeConfig
    from barnabas.server.coordinators.coordinator_partition import (
        CoordinatorContext,
        CoordinatorPartition,
        Operation,
    )
    from barnabas.server.coordinators.coordinator_turns import ProducerBatch
    from barnabas.server.quorum.metadata_publisher import MetadataPublisher
    from barnabas.server.replication.commit_wait import CommitWaits

logger = logging.getLogger(__name__)

_RELOAD_BACKOFF_S = 0.05
_RELOAD_BACKOFF_MAX_S = 5.0
# A partition that served for this long begins again with the smallest backoff.
_HEALTHY_S = 60.0

PartitionT = TypeVar("PartitionT", bound="CoordinatorPartition[Any]")


@attrs.frozen
class _Backoff:
    """The time of a partition's last reload, and the pause before it, in seconds."""

    began: float = -math.inf
    delay: float = 0.0

    def next(self, now: float) -> _Backoff:
        """Return the next backoff: twice as long, or the smallest after a healthy time."""
        if now - self.began > _HEALTHY_S:
            return _Backoff(now, _RELOAD_BACKOFF_S)
        return _Backoff(now, min(2 * self.delay, _RELOAD_BACKOFF_MAX_S))


class CoordinatorService(ABC, Generic[PartitionT]):
    """Coordinates the keys of those partitions of one topic that this node leads.

    Requests raise KafkaError: NOT_COORDINATOR for a key of another node (or of none yet),
    COORDINATOR_LOAD_IN_PROGRESS while the key's partition is being loaded, and
    COORDINATOR_NOT_AVAILABLE after it failed.
    """

    TOPIC: str

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataPublisher,
        config: Callable[[], NodeConfig],
        commits: CommitWaits,
        clock: Clock,
    ) -> None:
        self.partitions: dict[int, PartitionT] = {}
        self.failures = 0
        self._replicas = replicas
        self._metadata = metadata
        self._config = config
        self._nursery: tasks.Nursery | None = None
        self._backoffs: dict[int, _Backoff] = {}
        self._clock = CoordinatorClock(clock)
        self._commits = commits

    @cached_property
    def _context(self) -> CoordinatorContext:
        # A node without groups and transactions imports none of their modules.
        from barnabas.server.coordinators.coordinator_partition import CoordinatorContext

        return CoordinatorContext(
            self._replicas, self._commits, self._clock, self._resume, self._reload_failed
        )

    @abstractmethod
    def new_partition(self, index: int, leader_epoch: int) -> PartitionT:
        """Return a partition of the topic that is not loaded yet."""

    async def run(self, task_status: tasks.TaskStatus = tasks.IGNORED) -> None:
        """Coordinate until cancelled."""
        self._clock.start()
        async with tasks.open_nursery() as nursery:
            self._nursery = nursery
            self._metadata.subscribe(self.TOPIC, self.on_image)
            self._follow(self._metadata.image)
            task_status.started()
            try:
                await tasks.sleep_forever()
            finally:
                self._nursery = None
                for partition in self.partitions.values():
                    partition.resign()
                self.partitions.clear()

    # Partitions

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take a new image: partitions come and go."""
        self._follow(image)

    def _follow(self, image: MetadataImage) -> None:
        """Lead the topic's partitions in exactly the leader epochs of the image.

        The replicas have applied the image before, so their logs are those of these epochs.
        """
        epochs: dict[int, int] = {}
        topic = image.topics_by_name.get(self.TOPIC)
        if topic is not None:
            here = self._replicas.broker_id
            epochs = {
                index: partition.leader_epoch
                for index, partition in topic.partitions.items()
                if partition.leader == here
            }
        for index, partition in list(self.partitions.items()):
            epoch = epochs.get(index)
            if epoch != partition.leader_epoch and not partition.continue_in(epoch):
                logger.info(
                    "resigned topic=%s partition=%d epoch=%d",
                    self.TOPIC,
                    index,
                    partition.leader_epoch,
                )
                self.partitions.pop(index).resign()
                self._backoffs.pop(index, None)
        if self._nursery is not None:
            for index in sorted(epochs.keys() - self.partitions.keys()):
                partition = self.partitions[index] = self.new_partition(index, epochs[index])
                self._nursery.start_soon(self._load, partition, 0.0)

    async def _load(self, partition: PartitionT, delay_s: float) -> None:
        await tasks.sleep(delay_s)
        if self.partitions.get(partition.index) is not partition:
            return
        try:
            for _ in partition.load():
                await tasks.checkpoint()
        except KafkaError as error:
            logger.warning(
                "loading failed, retrying topic=%s partition=%d error=%s",
                self.TOPIC,
                partition.index,
                error.code.name,
            )
            self._reload(partition)
        except Exception as error:
            partition.fail(error)

    def _reload_failed(self, partition: CoordinatorPartition[Any], error: Exception) -> None:
        """Count a failure of a partition and load the partition again."""
        self.failures += 1
        logger.error(
            "coordinator failed, reloading topic=%s partition=%d epoch=%d",
            self.TOPIC,
            partition.index,
            partition.leader_epoch,
            exc_info=error,
        )
        replacement = self._reload(partition)
        if replacement is not None:
            replacement.unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _reload(self, partition: CoordinatorPartition[Any]) -> PartitionT | None:
        """Replace a partition by a new one, which is loaded after a backoff."""
        index = partition.index
        if self._nursery is None or self.partitions.get(index) is not partition:
            return None
        replacement = self.new_partition(index, partition.leader_epoch)
        replacement.inherit(partition)
        self.partitions[index] = replacement
        backoff = self._backoffs[index] = self._backoffs.get(index, _Backoff()).next(
            tasks.current_time()
        )
        self._nursery.start_soon(self._load, replacement, backoff.delay)
        return replacement

    def partition_of(self, key: str) -> int | None:
        """Return the number of a key's partition, None while the topic does not exist."""
        topic = self._metadata.image.topics_by_name.get(self.TOPIC)
        return None if topic is None else partition_for(key, len(topic.partitions))

    def partition_for_key(self, key: str) -> PartitionT:
        """Return the loaded partition that coordinates a key here. Raises KafkaError."""
        index = self.partition_of(key)
        partition = None if index is None else self.partitions.get(index)
        if partition is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "another node coordinates this key")
        if not partition.is_loaded:
            raise KafkaError(partition.unavailable, "the coordinator is not loaded")
        return partition

    # Long decisions

    def _resume(self, partition: CoordinatorPartition[Any]) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(self._work_on, partition)

    async def _work_on(self, partition: CoordinatorPartition[Any]) -> None:
        """Carry out a partition's decisions to their end, with other tasks between slices."""
        has_more = True
        while has_more:
            await tasks.checkpoint()
            has_more = partition.work()

    # Requests

    async def request(
        self, key: str, operation: Operation, producer: ProducerBatch | None = None
    ) -> Any:
        """Run an operation of the key's shard and wait for its reply. Raises KafkaError."""
        return await self.partition_for_key(key).request(operation, producer)

    async def request_all(self, operation: Operation) -> list[Any]:
        """Run an operation of every shard of this node; return the replies, which are lists, as
        one.

        Raises COORDINATOR_LOAD_IN_PROGRESS while a partition is not loaded.
        """
        replies: list[Any] = []
        for partition in list(self.partitions.values()):
            if not partition.is_loaded:
                raise KafkaError(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a partition is not loaded"
                )
            replies += await partition.request(operation)
        return replies
