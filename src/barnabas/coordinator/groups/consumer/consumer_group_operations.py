"""The consumer groups of one shard: every operation on them, wired together.

Kafka: GroupMetadataManager, the part for consumer groups.
"""

import logging
from collections.abc import Callable, Collection, Mapping, MutableMapping
from typing import Any

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.core.coordinator_output import (
    Caller,
    Decision,
    DecisionTimers,
    Output,
    Record,
    Token,
)
from barnabas.coordinator.core.steps import Steps
from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.coordinator.groups.classic.classic_rebalance import Rebalancer
from barnabas.coordinator.groups.classic.classic_responses import join_error, sync_error
from barnabas.coordinator.groups.consumer.classic_protocol_members import ClassicMembers
from barnabas.coordinator.groups.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.groups.consumer.consumer_group_description import described
from barnabas.coordinator.groups.consumer.consumer_heartbeat import Heartbeats
from barnabas.coordinator.groups.consumer.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    MemberState,
)
from barnabas.coordinator.groups.consumer.consumer_settings import GroupConfigs
from barnabas.coordinator.groups.consumer.member_removal import Removals
from barnabas.coordinator.groups.consumer.migration import Downgrades, Upgrades
from barnabas.coordinator.groups.consumer.subscribed_topics import Topics
from barnabas.coordinator.groups.consumer.target_assignment import GroupContext, Rebalances
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.offset_and_group_records import group_tombstone
from barnabas.coordinator.groups.rebalance_history import RebalanceHistory
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

logger = logging.getLogger(__name__)

Group = ClassicGroup | ConsumerGroup


class ConsumerGroups:
    """Decides on consumer groups among all groups of a shard, and replays their records."""

    def __init__(
        self,
        settings: GroupSettings,
        timers: DecisionTimers,
        groups: MutableMapping[str, Group],
        rebalancer: Rebalancer,
        history: RebalanceHistory,
    ) -> None:
        self._groups = groups
        self._context = GroupContext(GroupConfigs(settings), timers, Topics(), history, self.find)
        self._rebalances = rebalances = Rebalances(self._context)
        downgrades = Downgrades(self._context, rebalancer)
        self._removals = Removals(self._context, downgrades)
        self._heartbeats = Heartbeats(self._context, rebalances, self._removals)
        self._upgrades = Upgrades(self._context)
        self.classic_members = ClassicMembers(self._context, rebalances, self._removals, downgrades)

    def find(self, group_id: str) -> ConsumerGroup | None:
        """Return a consumer group by its id; None when there is none of this type."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def update_metadata(
        self,
        image: MetadataImage,
        settings: GroupSettings,
        *,
        changed: Collection[str],
        created: bool,
    ) -> None:
        """Take the next metadata image; groups of changed topics examine them later."""
        self._context.topics.update(image, changed=changed, created=created)
        self._context.configs.update(image, settings)
        names = frozenset(changed)
        if not names:
            return
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup) and not names.isdisjoint(
                group.subscriptions.topics()
            ):
                group.metadata_epoch = None

    # Operations

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        fresh_uuid: str,
        now_ms: int,
        token: Token,
    ) -> Steps[Output]:
        """Decide on ConsumerGroupHeartbeat. Raises KafkaError."""
        self._heartbeats.validate(request, caller.version)
        group_id = request.group_id
        epoch = request.member_epoch
        group = self._groups.get(group_id)
        if epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            if not isinstance(group, ConsumerGroup):
                raise _not_found(group_id, group)
            return (yield from self._heartbeats.leave(group, request, now_ms, token))
        preceding: list[Record] = []
        if isinstance(group, ConsumerGroup):
            consumer = group
        elif epoch != JOIN_EPOCH:
            raise _not_found(group_id, group)
        elif group is None:
            consumer = ConsumerGroup(group_id)
        elif group.is_empty:
            consumer = ConsumerGroup(group_id)
            preceding.append(group_tombstone(group_id))
        else:
            consumer, preceding = yield from self._upgrades.of(group)
        out = yield from self._heartbeats.heartbeat(
            consumer, request, caller, fresh_uuid, now_ms, token, preceding
        )
        if isinstance(group, ClassicGroup) and not group.is_empty:
            _reject_waiting(group, out)
            out.then = self._replace_timers(group_id, out.then)
        return out

    def _replace_timers(
        self, group_id: str, then: Callable[[int], Decision] | None
    ) -> Callable[[int], Decision]:
        """Return a continuation that replaces the timers of the classic group by those of here."""

        def take_over(now_ms: int) -> Decision:
            for kind in ("join", "sync"):
                self._context.timers.cancel((kind, group_id))
            group = self.find(group_id)
            for member in () if group is None else group.members.values():
                if member.classic is not None:
                    self._removals.renew_session(
                        group_id, member.member_id, now_ms, member.classic.session_timeout_ms
                    )
            return Output() if then is None else then(now_ms)

        return take_over

    def validate_transactional_commit(
        self, group: ConsumerGroup, request: TxnOffsetCommitRequest
    ) -> None:
        """Raise the error of a transactional commit, in codes that producers know."""
        by_name = self._context.topics.image.topics_by_name
        try:
            check = group.validate_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                is_transactional=True,
            )
            if check is None:
                return
            for topic in request.topics:
                known = by_name.get(topic.name)
                if known is None:
                    raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "the topic does not exist")
                for partition in topic.partitions:
                    check(known.id, partition.partition_index)
        except KafkaError as error:
            if error.code is ErrorCode.STALE_MEMBER_EPOCH:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from error
            raise

    def regexes_resolved(
        self, group_id: str, found: Mapping[str, frozenset[str]], version: int, now_ms: int
    ) -> Steps[Output]:
        """Take the answer to a `ResolutionRequest`."""
        return self._rebalances.resolved(group_id, found, version, now_ms)

    def describe(self, group_id: str, token: Token) -> Output:
        """Return one group of ConsumerGroupDescribe."""
        group = self._groups.get(group_id)
        out = Output()
        if isinstance(group, ConsumerGroup):
            context = self._context
            default = next(iter(context.configs.settings.consumer_assignors))
            out.reply(token, described(group, default, context.topics.image))
            return out
        error = _not_found(group_id, group)
        if group is None:
            error = KafkaError(error.code, f"Group {group_id} not found.")
        out.reply(
            token,
            ConsumerGroupDescribeResponse.DescribedGroup(
                group_id=group_id, error_code=error.code, error_message=error.message
            ),
        )
        return out

    # Replay

    def replay(self, key: Message, value: Any) -> bool:
        """Apply a record of a consumer group; return False for any other record."""
        replay = _REPLAY.get(type(key))
        if replay is None:
            return False
        group_id: str = getattr(key, "group_id")  # noqa: B009 (all of them have one)
        group = self.find(group_id)
        if group is None:
            if value is None:
                return True
            before = self._groups.get(group_id)
            if before is not None and not before.is_empty:
                logger.warning("replay replaces a classic group by a consumer group: %r", before)
            group = self._groups[group_id] = ConsumerGroup(group_id)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del self._groups[group_id]
        else:
            replay(group, key, value)
        return True

    def loaded(self, group: ConsumerGroup, now_ms: int) -> None:
        """Begin to serve a group after replay: every member gets a full session."""
        for member in group.members.values():
            self._removals.renew_session(group.group_id, member.member_id, now_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._removals.await_revocation(group.group_id, member, now_ms)


def _reject_waiting(group: ClassicGroup, out: Output) -> None:
    """Make members that wait in a former classic group join again."""
    for member in group.members.values():
        if member.awaiting_join is not None:
            error = join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
            out.reply(member.awaiting_join, error)
            member.awaiting_join = None
        if member.awaiting_sync is not None:
            out.reply(member.awaiting_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
            member.awaiting_sync = None


def _not_found(group_id: str, group: Group | None) -> KafkaError:
    if group is None:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


_REPLAY: dict[type[Message], Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMetadataKey: lambda group, _key, value: group.replay_epoch(value),
    ConsumerGroupPartitionMetadataKey: lambda group, _key, value: group.replay_partition_metadata(
        value
    ),
    ConsumerGroupMemberMetadataKey: lambda group, key, value: group.replay_subscription(
        key.member_id, value
    ),
    ConsumerGroupTargetAssignmentMetadataKey: lambda group, _key, value: group.replay_target_epoch(
        value
    ),
    ConsumerGroupTargetAssignmentMemberKey: lambda group, key, value: group.replay_target(
        key.member_id, value
    ),
    ConsumerGroupCurrentMemberAssignmentKey: lambda group, key, value: group.replay_current(
        key.member_id, value
    ),
    ConsumerGroupRegularExpressionKey: lambda group, key, value: group.replay_regex(
        key.regular_expression, value
    ),
}
