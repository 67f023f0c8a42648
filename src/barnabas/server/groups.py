"""The group coordinator of a node: finds a group's partition, loads it, keeps its time.

Kafka: GroupCoordinatorService and CoordinatorRuntime. Requests of one group are decided in the
order in which they come; waiting joins and syncs are awaited in their connections' tasks.
"""

import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from barnabas.cluster.delta import MetadataDelta
from barnabas.cluster.image import MetadataImage
from barnabas.coordinator.offsets import FetchedGroup, FetchGroup
from barnabas.coordinator.output import Caller, Output, Token
from barnabas.coordinator.routing import partition_for
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import GroupShard
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.delete_groups import DeleteGroupsResponse
from barnabas.protocol.messages.describe_groups import DescribeGroupsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.list_groups import ListGroupsResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.records.batch import Codec
from barnabas.server.group_partition import GroupPartition, Waiter
from barnabas.server.internal_topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from barnabas.config.node_config import NodeConfig
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)

# A partition whose log is not there yet, or cannot be read, is tried again.
_LOAD_RETRY_S = 0.05
_LOAD_RETRY_MAX_S = 5.0

Decide = Callable[[GroupShard, int, Token], Output]


def group_settings(config: "NodeConfig") -> GroupSettings:
    """The coordinator's settings out of the node's properties."""
    return GroupSettings(
        initial_rebalance_delay_ms=config.get("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.get("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get("group.max.session.timeout.ms"),
        max_size=config.get("group.max.size"),
        offset_metadata_max_size=config.get("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get("offsets.retention.check.interval.ms"),
    )


class GroupCoordinator:
    """Coordinates the groups whose partitions of `__consumer_offsets` this node leads.

    Methods raise KafkaError: NOT_COORDINATOR for a group of another node (or of none yet), and
    COORDINATOR_LOAD_IN_PROGRESS while what it is told of them is being read.
    """

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._settings = group_settings(node.config)
        self._led: dict[int, GroupPartition] = {}
        self._nursery: trio.Nursery | None = None
        self._rescheduled = trio.Event()
        self._wakeup_ms: int | None = None
        self._clock_offset_ms = 0

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Coordinate until cancelled."""
        self._clock_offset_ms = self._node.now_ms() - _monotonic_ms()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._node.quorum.subscribe(self.on_image)
            self._follow(self._node.image)
            task_status.started()
            try:
                await self._keep_time()
            finally:
                self._nursery = None
                for led in self._led.values():
                    led.resign()
                self._led.clear()

    def now_ms(self) -> int:
        """Wall-clock milliseconds that do not jump: sessions outlive a clock that is set."""
        return self._clock_offset_ms + _monotonic_ms()

    # Which partitions

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata has changed: partitions come and go, deleted topics lose their offsets."""
        self._follow(image)
        deleted = {topic.name: topic.id for topic in delta.deleted_topics.values()}
        if deleted:
            for led in self._led.values():
                led.forget_topics(deleted)

    def _follow(self, image: MetadataImage) -> None:
        topic = image.topics_by_name.get(OFFSETS_TOPIC)
        mine: set[int] = set()
        if topic is not None:
            here = self._node.node_id
            mine = {index for index, p in topic.partitions.items() if p.leader == here}
        for index in self._led.keys() - mine:
            logger.info("no longer the coordinator partition=%d", index)
            self._led.pop(index).resign()
        if self._nursery is not None:
            for index in sorted(mine - self._led.keys()):
                led = self._led[index] = self._new_partition(index)
                self._nursery.start_soon(self._load, led)

    def _new_partition(self, index: int) -> GroupPartition:
        return GroupPartition(
            self._node.replicas,
            index,
            GroupShard(self._settings),
            now_ms=self.now_ms,
            stamp_ms=self._node.now_ms,
            commit_timeout_ms=self._node.config.get("offsets.commit.timeout.ms"),
            codec=Codec(self._node.config.get("offsets.topic.compression.codec")),
        )

    async def _load(self, led: GroupPartition) -> None:
        retry_s = _LOAD_RETRY_S
        while self._led.get(led.index) is led:
            try:
                await led.load()
            except KafkaError as error:
                logger.warning(
                    "could not load groups partition=%d error=%s", led.index, error.code.name
                )
                await trio.sleep(retry_s)
                retry_s = min(2 * retry_s, _LOAD_RETRY_MAX_S)
                led.shard = GroupShard(self._settings)
            else:
                self._note_wakeup(led)
                return

    def _lead(self, group_id: str) -> GroupPartition:
        topic = self._node.image.topics_by_name.get(OFFSETS_TOPIC)
        led = None
        if topic is not None:
            led = self._led.get(partition_for(group_id, len(topic.partitions)))
        if led is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "another node coordinates the group")
        if not led.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the groups are loading")
        return led

    # Time

    async def _keep_time(self) -> None:
        """The one task that wakes all shards."""
        while True:
            self._rescheduled = trio.Event()
            wakeups = [
                wakeup_ms
                for led in self._led.values()
                if led.is_loaded and (wakeup_ms := led.next_wakeup()) is not None
            ]
            self._wakeup_ms = min(wakeups, default=None)
            if self._wakeup_ms is None:
                await self._rescheduled.wait()
                continue
            delay_ms = self._wakeup_ms - self.now_ms()
            with trio.move_on_after(max(0, delay_ms) / 1000):
                await self._rescheduled.wait()
            for led in list(self._led.values()):
                if led.is_loaded:
                    led.tick()

    def _note_wakeup(self, led: GroupPartition) -> None:
        wakeup_ms = led.next_wakeup()
        if wakeup_ms is not None and (self._wakeup_ms is None or wakeup_ms < self._wakeup_ms):
            self._wakeup_ms = wakeup_ms
            self._rescheduled.set()

    # Requests

    async def _decide(self, group_id: str, decide: Decide) -> Any:
        return await self._decide_at(self._lead(group_id), decide)

    async def _decide_at(self, led: GroupPartition, decide: Decide) -> Any:
        waiter = Waiter()
        led.carry_out(decide(led.shard, self.now_ms(), waiter))
        self._note_wakeup(led)
        return await waiter.wait()

    async def join_group(self, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
        """Waits until the join phase is over."""
        fresh_uuid = str(uuid.uuid4())
        return await self._decide(
            request.group_id,
            lambda shard, now_ms, token: shard.join_group(
                request, caller, fresh_uuid, now_ms, token
            ),
        )

    async def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """Waits for the leader's assignment."""
        return await self._decide(
            request.group_id,
            lambda shard, now_ms, token: shard.sync_group(request, now_ms, token),
        )

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """A member's sign of life."""
        return await self._decide(
            request.group_id, lambda shard, now_ms, token: shard.heartbeat(request, now_ms, token)
        )

    async def leave_group(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """Members go; the request is in the layout of v3+."""
        return await self._decide(
            request.group_id,
            lambda shard, now_ms, token: shard.leave_group(request, now_ms, token),
        )

    async def commit_offsets(
        self, request: OffsetCommitRequest, version: int
    ) -> OffsetCommitResponse:
        """Commits offsets of topics that exist, with their names and ids filled in."""
        return await self._decide(
            request.group_id,
            lambda shard, now_ms, token: shard.commit_offsets(request, version, now_ms, token),
        )

    async def fetch_offsets(self, request: FetchGroup, *, require_stable: bool) -> FetchedGroup:
        """One group's committed offsets."""
        return await self._decide(
            request.group_id,
            lambda shard, _now_ms, token: shard.fetch_offsets(
                request, require_stable=require_stable, token=token
            ),
        )

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Removes committed offsets of topics that nobody consumes."""
        return await self._decide(
            request.group_id, lambda shard, _now_ms, token: shard.delete_offsets(request, token)
        )

    async def describe_group(
        self, group_id: str, version: int
    ) -> DescribeGroupsResponse.DescribedGroup:
        """One group with its members."""
        return await self._decide(
            group_id, lambda shard, _now_ms, token: shard.describe_group(group_id, version, token)
        )

    async def delete_group(self, group_id: str) -> DeleteGroupsResponse.DeletableGroupResult:
        """Deletes one empty group and its offsets."""
        results = await self._decide(
            group_id, lambda shard, _now_ms, token: shard.delete_groups([group_id], token)
        )
        return results[0]

    async def list_groups(
        self, states: list[str], types: list[str]
    ) -> list[ListGroupsResponse.ListedGroup]:
        """All groups of this node; COORDINATOR_LOAD_IN_PROGRESS while some are not known yet."""
        groups: list[ListGroupsResponse.ListedGroup] = []
        for led in list(self._led.values()):
            if not led.is_loaded:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the groups are loading")
            groups += await self._decide_at(
                led, lambda shard, _now_ms, token: shard.list_groups(states, types, token)
            )
        return groups


def _monotonic_ms() -> int:
    return int(trio.current_time() * 1000)
