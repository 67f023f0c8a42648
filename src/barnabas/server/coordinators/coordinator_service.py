"""What the coordinators of a node have in common: which partitions they lead, and their time.

A service follows the metadata image: a partition of its topic that this node begins to lead is
loaded in a task of its own and tried again until it is read; one that it leads no longer resigns.
One task wakes all shards (Kafka's `CoordinatorRuntime`).
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.core.coordinator_output import Decision, Token
from barnabas.coordinator.core.routing import partition_for
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.coordinators.coordinator_partition import (
    CoordinatorPartition,
    ProducerBatch,
    Waiter,
)

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition
    from barnabas.server.node.node import Node

logger = logging.getLogger(__name__)

# A partition whose log is not there yet, or cannot be read, is tried again.
_LOAD_RETRY_S = 0.05
_LOAD_RETRY_MAX_S = 5.0

PartitionT = TypeVar("PartitionT", bound="CoordinatorPartition[Any]")

# An operation of a shard, given the shard, the time in ms and the token of its reply.
Decide = Callable[[Any, int, Token], Decision]


class CoordinatorService(ABC, Generic[PartitionT]):
    """Coordinates what hashes to the partitions of one topic that this node leads.

    Methods raise KafkaError: NOT_COORDINATOR for a key of another node (or of none yet), and
    COORDINATOR_LOAD_IN_PROGRESS while what it is told of it is being read.
    """

    TOPIC: str

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.led: dict[int, PartitionT] = {}
        self.nursery: trio.Nursery | None = None
        self._rescheduled = trio.Event()
        self._wakeup_ms: int | None = None
        self._clock_offset_ms = 0

    @abstractmethod
    def new_partition(self, index: int) -> PartitionT:
        """A partition of the topic, not loaded yet."""

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Coordinate until cancelled."""
        self._clock_offset_ms = self.node.now_ms() - _monotonic_ms()
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            self.node.quorum.publisher.subscribe(self.TOPIC, self.on_image)
            self._follow(self.node.image)
            task_status.started()
            try:
                await self._keep_time()
            finally:
                self.nursery = None
                for led in self.led.values():
                    led.resign()
                self.led.clear()

    def now_ms(self) -> int:
        """Wall-clock milliseconds that do not jump: deadlines outlive a clock that is set."""
        return self._clock_offset_ms + _monotonic_ms()

    # Which partitions

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata has changed: partitions come and go."""
        self._follow(image)

    def _follow(self, image: MetadataImage) -> None:
        topic = image.topics_by_name.get(self.TOPIC)
        mine: set[int] = set()
        if topic is not None:
            here = self.node.node_id
            mine = {index for index, p in topic.partitions.items() if p.leader == here}
        for index in self.led.keys() - mine:
            logger.info("no longer the coordinator topic=%s partition=%d", self.TOPIC, index)
            self.led.pop(index).resign()
        if self.nursery is not None:
            for index in sorted(mine - self.led.keys()):
                led = self.led[index] = self.new_partition(index)
                self.nursery.start_soon(self._load, led)

    async def _load(self, led: PartitionT) -> None:
        retry_s = _LOAD_RETRY_S
        while self.led.get(led.index) is led:
            try:
                await led.load()
            except KafkaError as error:
                logger.warning(
                    "could not load %s partition=%d error=%s",
                    led.THINGS,
                    led.index,
                    error.code.name,
                )
                await trio.sleep(retry_s)
                retry_s = min(2 * retry_s, _LOAD_RETRY_MAX_S)
                led.shard = self.new_partition(led.index).shard
            else:
                self.note_wakeup(led)
                return

    def partition_of(self, key: str) -> int | None:
        """The partition of the topic that a key belongs to, None while there is no topic."""
        topic = self.node.image.topics_by_name.get(self.TOPIC)
        return None if topic is None else partition_for(key, len(topic.partitions))

    def lead(self, key: str) -> PartitionT:
        """The partition of a key that is coordinated here; KafkaError."""
        index = self.partition_of(key)
        led = None if index is None else self.led.get(index)
        if led is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "another node coordinates this")
        if not led.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is loading")
        return led

    # The disk

    def begin_sync(
        self, led: CoordinatorPartition[Any], partition: "Partition", end_offset: int
    ) -> None:
        """Make what is written of a partition durable, and tell its coordinator."""
        if self.nursery is not None:
            self.nursery.start_soon(self._sync, led, partition, end_offset)

    async def _sync(
        self, led: CoordinatorPartition[Any], partition: "Partition", end_offset: int
    ) -> None:
        # Where it fails the directory goes offline, which ends this coordinator and who waits.
        if await self.node.disk.flush(partition):
            led.synced(partition, end_offset)

    # Time

    async def _keep_time(self) -> None:
        """The one task that wakes all shards."""
        while True:
            self._rescheduled = trio.Event()
            wakeups = [
                wakeup_ms
                for led in self.led.values()
                if led.is_loaded and (wakeup_ms := led.next_wakeup()) is not None
            ]
            self._wakeup_ms = min(wakeups, default=None)
            if self._wakeup_ms is None:
                await self._rescheduled.wait()
                continue
            delay_ms = self._wakeup_ms - self.now_ms()
            with trio.move_on_after(max(0, delay_ms) / 1000):
                await self._rescheduled.wait()
            for led in list(self.led.values()):
                if led.is_loaded:
                    led.tick()

    def note_wakeup(self, led: CoordinatorPartition[Any]) -> None:
        """A shard may want to be woken earlier now."""
        wakeup_ms = led.next_wakeup()
        if wakeup_ms is not None and (self._wakeup_ms is None or wakeup_ms < self._wakeup_ms):
            self._wakeup_ms = wakeup_ms
            self._rescheduled.set()

    # Decisions that take long

    def go_on(self, led: CoordinatorPartition[Any]) -> None:
        """Take a partition's decisions to their end, letting others go on now and then."""
        if self.nursery is not None:
            self.nursery.start_soon(self._work_on, led)

    async def _work_on(self, led: CoordinatorPartition[Any]) -> None:
        has_more = True
        while has_more:
            await trio.lowlevel.checkpoint()
            has_more = led.work()
            self.note_wakeup(led)

    # Requests

    async def decide(self, key: str, decide: Decide, producer: ProducerBatch | None = None) -> Any:
        """Have the key's shard decide, and wait for the reply; raises its KafkaError."""
        return await self.decide_at(self.lead(key), decide, producer)

    async def decide_at(
        self, led: PartitionT, decide: Decide, producer: ProducerBatch | None = None
    ) -> Any:
        """The same at a partition that is known."""
        waiter = Waiter()
        led.perform(lambda: decide(led.shard, self.now_ms(), waiter), waiter, producer)
        self.note_wakeup(led)
        return await waiter.wait()


def _monotonic_ms() -> int:
    return int(trio.current_time() * 1000)
