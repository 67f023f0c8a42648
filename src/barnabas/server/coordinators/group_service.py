"""The group coordinator of a node: requests about groups and their offsets.

Kafka: GroupCoordinatorService. Requests of one group are decided in the order in which they come.
Joins and syncs that wait are awaited in their connections' tasks.
"""

from __future__ import annotations

import uuid
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.metadata.feature_levels import GROUP_VERSION
from barnabas.coordinator.groups.consumer.assignors.assignor import load_assignors
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.types import Uuid
from barnabas.server.coordinators.coordinator_service import CoordinatorService
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.server.node_failures import StartupError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.cluster.metadata.delta import MetadataDelta
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.cluster.replication import ReplicaManager
    from barnabas.config.node_config import NodeConfig
    from barnabas.coordinator.core.coordinator_output import Caller, Output, Token
    from barnabas.coordinator.groups.committed_offsets import FetchedGroup, FetchGroup
    from barnabas.coordinator.groups.consumer.assignors.assignor import Assignor
    from barnabas.coordinator.groups.consumer.regex_subscriptions import ResolutionRequest
    from barnabas.coordinator.groups.group_shard import GroupShard
    from barnabas.coordinator.groups.rebalance_history import Cause
    from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
    from barnabas.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from barnabas.protocol.messages.delete_groups import DeleteGroupsResponse
    from barnabas.protocol.messages.describe_groups import DescribeGroupsResponse
    from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
    from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from barnabas.protocol.messages.list_groups import ListGroupsResponse
    from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
    from barnabas.protocol.messages.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
    )
    from barnabas.security.standard_authorizer import StandardAuthorizer
    from barnabas.server.coordinators.group_partition import GroupPartition
    from barnabas.server.coordinators.regex_resolver import RegexResolver
    from barnabas.server.quorum.metadata_publisher import MetadataPublisher
    from barnabas.server.replication.commit_wait import CommitWaits


def group_settings(config: NodeConfig, assignors: Mapping[str, Assignor]) -> GroupSettings:
    """Return the coordinator's settings from the node's properties."""
    migration = config.get("group.consumer.migration.policy").upper()
    return GroupSettings(
        initial_rebalance_delay_ms=config.get("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.get("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get("group.max.session.timeout.ms"),
        max_size=config.get("group.max.size"),
        offset_metadata_max_size=config.get("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=config.get("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=config.get("group.consumer.heartbeat.interval.ms"),
        consumer_assignment_interval_ms=config.get("group.consumer.assignment.interval.ms"),
        consumer_regex_refresh_interval_ms=config.get("group.consumer.regex.refresh.interval.ms"),
        consumer_max_size=config.get("group.consumer.max.size"),
        consumer_assignors=assignors,
        consumer_upgrades=migration in ("BIDIRECTIONAL", "UPGRADE"),
        consumer_downgrades=migration in ("BIDIRECTIONAL", "DOWNGRADE"),
    )


def assignors_of(config: NodeConfig) -> Mapping[str, Assignor]:
    """Return the assignors of `group.consumer.assignors`. Raises StartupError if one is invalid."""
    try:
        return load_assignors(config.get("group.consumer.assignors"))
    except ValueError as error:
        raise StartupError(str(error)) from error


class GroupCoordinator(CoordinatorService["GroupPartition"]):
    """Coordinates the groups whose partitions of `__consumer_offsets` this node leads."""

    TOPIC = OFFSETS_TOPIC

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataPublisher,
        config: Callable[[], NodeConfig],
        commits: CommitWaits,
        clock: Clock,
        *,
        assignors: Mapping[str, Assignor],
        authorizer: StandardAuthorizer | None = None,
    ) -> None:
        super().__init__(replicas, metadata, config, commits, clock)
        self._assignors = assignors
        self._authorizer = authorizer
        self._settings = group_settings(config(), assignors)
        protocols = config().get("group.coordinator.rebalance.protocols")
        self._serves_consumer_groups = "consumer" in protocols

    @cached_property
    def _regexes(self) -> RegexResolver:
        from barnabas.server.coordinators.regex_resolver import RegexResolver

        return RegexResolver(lambda: self._metadata.image)

    def new_partition(self, index: int, leader_epoch: int) -> GroupPartition:
        """Return a partition of groups that is not loaded yet."""
        from barnabas.coordinator.groups.group_shard import GroupShard
        from barnabas.server.coordinators.group_partition import GroupPartition

        config = self._config()
        shard = GroupShard(self._settings)
        shard.update_metadata(self._metadata.image, self._settings)
        return GroupPartition(
            self._context,
            index,
            leader_epoch,
            shard,
            commit_timeout_ms=config.get("offsets.commit.timeout.ms"),
            codec=Codec(config.get("offsets.topic.compression.codec")),
            resolve=self._resolve,
        )

    def _resolve(self, partition: GroupPartition, request: ResolutionRequest) -> None:
        """Match a group's expressions with the topics; the shard decides on the result."""

        def resolved(found: Mapping[str, frozenset[str]], version: int) -> None:
            if partition.is_loaded:
                shown = self._shown(found, request.caller)
                partition.submit(
                    lambda: partition.shard.regexes_resolved(
                        request.group_id, shown, version, self._clock.now_ms()
                    )
                )

        from barnabas.server.coordinators.regex_resolver import Question

        question = Question(request.regexes, resolved, partition.fail)
        if self._regexes.ask(question) and self._nursery is not None:
            self._nursery.start_soon(self._regexes.run)

    def _shown(
        self, found: Mapping[str, frozenset[str]], caller: Caller
    ) -> Mapping[str, frozenset[str]]:
        """Return the matched topics that the caller may describe."""
        authorizer = self._authorizer
        if authorizer is None:
            return found
        host = caller.client_host.removeprefix("/")
        may_describe = authorizer.describer(caller.principal, host, "ConsumerGroupHeartbeat")
        return {regex: frozenset(filter(may_describe, names)) for regex, names in found.items()}

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take new metadata; the offsets of deleted topics are removed."""
        super().on_image(image, delta)
        if delta.configs:
            self._settings = group_settings(self._config(), self._assignors)
        changed = {topic.name for topic in delta.topics.values()}
        changed |= {topic.name for topic in delta.deleted_topics.values()}
        created = any(topic.is_new for topic in delta.topics.values())
        deleted = {topic.name: topic.id for topic in delta.deleted_topics.values()}
        for partition in list(self.partitions.values()):
            partition.update_metadata(image, self._settings, changed=changed, created=created)
            if deleted:
                partition.forget_topics(deleted)

    async def join_group(self, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
        """Join a group; returns when the join phase ends."""
        fresh_uuid = str(uuid.UUID(bytes=tasks.local(Random).randbytes(16), version=4))
        return await self.request(
            request.group_id,
            lambda shard, now_ms, token: shard.join_group(
                request, caller, fresh_uuid, now_ms, token
            ),
        )

    async def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """Sync; returns when the leader has sent the assignment."""
        return await self.request(
            request.group_id,
            lambda shard, now_ms, token: shard.sync_group(request, now_ms, token),
        )

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Renew a member's session."""
        return await self.request(
            request.group_id, lambda shard, now_ms, token: shard.heartbeat(request, now_ms, token)
        )

    async def leave_group(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """Remove members; the request is in the layout of v3+."""
        return await self.request(
            request.group_id,
            lambda shard, now_ms, token: shard.leave_group(request, now_ms, token),
        )

    @property
    def serves_consumer_groups(self) -> bool:
        """True when the cluster has finalized the protocol and this node serves it."""
        level = self._metadata.image.features.get(GROUP_VERSION, 0)
        return self._serves_consumer_groups and level > 0

    async def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse:
        """Decide on a heartbeat of the consumer protocol: join, stay or leave."""
        chance = tasks.local(Random)
        fresh_uuid = "" if request.member_id else str(Uuid.random(chance.randbytes))
        return await self.request(
            request.group_id,
            lambda shard, now_ms, token: shard.consumer_heartbeat(
                request, caller, fresh_uuid, now_ms, token
            ),
        )

    async def describe_consumer_group(
        self, group_id: str
    ) -> ConsumerGroupDescribeResponse.DescribedGroup:
        """Return one consumer group with its members."""
        return await self.request(
            group_id, lambda shard, _now_ms, token: shard.describe_consumer_group(group_id, token)
        )

    def has_group(self, group_id: str) -> bool:
        """True when the group exists; raises KafkaError when this node does not coordinate it."""
        return self.partition_for_key(group_id).shard.has_group(group_id)

    def rebalance_causes(self, group_id: str) -> Sequence[Cause]:
        """Return the last causes of a group's rebalances, the oldest first.

        Raises KafkaError when the group is not coordinated here.
        """
        return self.partition_for_key(group_id).shard.rebalance_causes(group_id)

    async def commit_offsets(
        self, request: OffsetCommitRequest, version: int
    ) -> OffsetCommitResponse:
        """Commit offsets of topics that exist; the request has both names and ids."""
        return await self.request(
            request.group_id,
            lambda shard, now_ms, token: shard.commit_offsets(request, version, now_ms, token),
        )

    async def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, check: Callable[[], None]
    ) -> TxnOffsetCommitResponse:
        """Write offsets into the transaction of the request's producer.

        `check` is called just before they are written, and raises when they must not be.
        """

        def commit(shard: GroupShard, now_ms: int, token: Token) -> Output:
            check()
            return shard.commit_transactional_offsets(request, now_ms, token)

        from barnabas.server.coordinators.coordinator_turns import ProducerBatch

        producer = ProducerBatch(request.producer_id, request.producer_epoch)
        return await self.request(request.group_id, commit, producer)

    async def fetch_offsets(self, request: FetchGroup, *, require_stable: bool) -> FetchedGroup:
        """Return one group's committed offsets."""
        return await self.request(
            request.group_id,
            lambda shard, _now_ms, token: shard.fetch_offsets(
                request, require_stable=require_stable, token=token
            ),
        )

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Remove committed offsets of topics that no member consumes."""
        return await self.request(
            request.group_id, lambda shard, _now_ms, token: shard.delete_offsets(request, token)
        )

    async def describe_group(
        self, group_id: str, version: int
    ) -> DescribeGroupsResponse.DescribedGroup:
        """Return one group with its members."""
        return await self.request(
            group_id, lambda shard, _now_ms, token: shard.describe_group(group_id, version, token)
        )

    async def delete_group(self, group_id: str) -> DeleteGroupsResponse.DeletableGroupResult:
        """Delete one empty group and its offsets."""
        results = await self.request(
            group_id, lambda shard, _now_ms, token: shard.delete_groups([group_id], token)
        )
        return results[0]

    async def list_groups(
        self, states: list[str], types: list[str]
    ) -> list[ListGroupsResponse.ListedGroup]:
        """Return all groups of this node. Raises COORDINATOR_LOAD_IN_PROGRESS if incomplete."""
        return await self.request_all(
            lambda shard, _now_ms, token: shard.list_groups(states, types, token)
        )
