"""All groups and offsets of one partition of `__consumer_offsets`.

Kafka: GroupCoordinatorShard. Each group type has a class of groups, an object that decides on its
requests, and records that it replays.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
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
from barnabas.coordinator.core.coordinator_timers import Timers
from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.coordinator.groups.classic.classic_join import Joins
from barnabas.coordinator.groups.classic.classic_membership import Membership
from barnabas.coordinator.groups.classic.classic_rebalance import Rebalancer
from barnabas.coordinator.groups.classic.classic_responses import join_error, sync_error
from barnabas.coordinator.groups.classic.classic_state import DEAD
from barnabas.coordinator.groups.committed_offsets import FetchGroup, Offsets
from barnabas.coordinator.groups.consumer.consumer_group import ConsumerGroup, PartitionCheck
from barnabas.coordinator.groups.consumer.consumer_group_operations import ConsumerGroups, Group
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.rebalance_history import Cause, RebalanceHistory
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsResponse
from barnabas.protocol.messages.describe_groups import DescribeGroupsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.protocol.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)

# OffsetCommit v9+ can distinguish a missing group from a stale generation.
GROUP_ID_NOT_FOUND_VERSION = 9
# DescribeGroups v6+ can, too; before, a missing group is described as dead.
DESCRIBE_NOT_FOUND_VERSION = 6


class GroupShard:
    """Decides on requests about the groups of one partition, and replays its records.

    Operations return an `Output` whose reply for `token` is a response message, or steps to it,
    which must end before any other operation. Errors of the whole request are raised as KafkaError,
    by the operation or by a step; the handler puts them where the api has a field. Times are
    wall-clock milliseconds.
    """

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._timers: DecisionTimers = Timers()
        self._groups: dict[str, Group] = {}
        self._offsets = Offsets(settings)
        self._history = RebalanceHistory()
        rebalancer = Rebalancer(settings, self._timers, self._find_classic, self._history)
        self._rebalancer = rebalancer
        self._joins = Joins(rebalancer)
        self._membership = Membership(rebalancer)
        self._consumers = ConsumerGroups(
            settings, self._timers, self._groups, rebalancer, self._history
        )
        self._unknown_keys: set[str] = set()
        self._is_loading = True

    def update_metadata(
        self,
        image: MetadataImage,
        settings: GroupSettings,
        *,
        changed: Collection[str] = (),
        created: bool = False,
    ) -> None:
        """Take the next metadata image; `changed` names include deleted topics."""
        self._consumers.update_metadata(image, settings, changed=changed, created=created)

    # Members

    def join_group(
        self,
        request: JoinGroupRequest,
        caller: Caller,
        fresh_uuid: str,
        now_ms: int,
        token: Token,
    ) -> Decision:
        """Decide on JoinGroup; `fresh_uuid` completes the member id when one is needed."""
        error = ErrorCode.NONE
        settings = self._settings
        timeout_ms = request.session_timeout_ms
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        if error is not ErrorCode.NONE:
            out = Output()
            out.reply(token, join_error(request.member_id, error))
            return out
        group = self._groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self._joins.join(group, request, caller, fresh_uuid, now_ms, token)
        if group.is_empty:
            return self._joins.join(
                None, request, caller, fresh_uuid, now_ms, token, preceding=group.tombstones()
            )
        return self._consumers.classic_members.join(
            group, request, caller, fresh_uuid, now_ms, token
        )

    def sync_group(self, request: SyncGroupRequest, now_ms: int, token: Token) -> Output:
        """Decide on SyncGroup."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = self._groups.get(request.group_id)
        if group is None or group.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no members")
        if isinstance(group, ConsumerGroup):
            return self._consumers.classic_members.sync(group, request, now_ms, token)
        return self._membership.sync(group, request, now_ms, token)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int, token: Token) -> Output:
        """Decide on Heartbeat."""
        group = self._group_with_members(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumers.classic_members.heartbeat(group, request, now_ms, token)
        return self._membership.heartbeat(group, request, now_ms, token)

    def leave_group(self, request: LeaveGroupRequest, now_ms: int, token: Token) -> Decision:
        """Decide on LeaveGroup in the layout of v3+. Raises UNKNOWN_MEMBER_ID without the group."""
        group = self._group_with_members(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumers.classic_members.leave(group, request, now_ms, token)
        return self._membership.leave(group, request, now_ms, token)

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        fresh_uuid: str,
        now_ms: int,
        token: Token,
    ) -> Decision:
        """Decide on ConsumerGroupHeartbeat; `fresh_uuid` is the id of a v0 member without one."""
        return self._consumers.heartbeat(request, caller, fresh_uuid, now_ms, token)

    def regexes_resolved(
        self, group_id: str, found: Mapping[str, frozenset[str]], version: int, now_ms: int
    ) -> Decision:
        """Take the topics that a group's expressions match, the answer to a `ResolutionRequest`.

        `version` is the metadata offset that they were matched at.
        """
        return self._consumers.regexes_resolved(group_id, found, version, now_ms)

    def _find_classic(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _group_with_members(self, group_id: str) -> Group:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
        return group

    # Offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, version: int, now_ms: int, token: Token
    ) -> Output:
        """Decide on OffsetCommit; a commit renews its member's session.

        A commit without a generation creates a group that has offsets and no members.
        """
        generation_id = request.generation_id_or_member_epoch
        group = self._groups.get(request.group_id)
        if group is None:
            if generation_id >= 0:
                if version >= GROUP_ID_NOT_FOUND_VERSION:
                    raise _not_found(request.group_id)
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "the group does not exist")
        elif isinstance(group, ConsumerGroup):
            check = group.validate_offset_commit(
                request.member_id, request.group_instance_id, generation_id, version=version
            )
            if check is not None:
                _check_partitions(request, check)
        else:
            group.validate_offset_commit(
                request.member_id, request.group_instance_id, generation_id
            )
            member = group.members.get(request.member_id)
            if member is not None:
                self._rebalancer.renew_session(group, member, now_ms)
        return self._offsets.commit(request, now_ms, token)

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, now_ms: int, token: Token
    ) -> Output:
        """Decide on TxnOffsetCommit; the records belong in a batch of the request's producer.

        Producers before KIP-447 name no member, so their commits pass with any generation.
        """
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            self._consumers.validate_transactional_commit(group, request)
        elif group is not None:
            group.validate_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                is_transactional=True,
            )
        elif request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "the group does not exist")
        return self._offsets.commit_transactional(request, now_ms, token)

    def fetch_offsets(self, request: FetchGroup, *, require_stable: bool, token: Token) -> Output:
        """Decide on one group of OffsetFetch; a missing group has no offsets.

        A member of a consumer group sends its epoch, which must be the present one.
        """
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            group.validate_offset_fetch(request.member_id, request.member_epoch)
        out = Output()
        out.reply(token, self._offsets.fetch(request, require_stable=require_stable))
        return out

    def delete_offsets(self, request: OffsetDeleteRequest, token: Token) -> Output:
        """Decide on OffsetDelete. Raises GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP for all of it."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = self._groups.get(request.group_id)
        if group is None:
            raise _not_found(request.group_id)
        group.validate_offset_delete()
        return self._offsets.delete(request, group.is_subscribed_to, token)

    def topics_deleted(self, topics: dict[str, Uuid]) -> Output:
        """Remove the offsets of deleted topics, given as names with their ids."""
        return Output(records=self._offsets.tombstones_of_topics(topics), atomic=False)

    # Administration

    def list_groups(self, states: list[str], types: list[str], token: Token) -> Output:
        """Return the groups in any of these states and of any of these types; empty means all."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {name.lower() for name in types}
        out = Output()
        out.reply(
            token,
            [
                group.listed()
                for group in self._groups.values()
                if (not wanted_states or group.state_name.lower() in wanted_states)
                and (not wanted_types or group.type_name in wanted_types)
            ],
        )
        return out

    def describe_group(self, group_id: str, version: int, token: Token) -> Output:
        """Return one group of DescribeGroups."""
        group = self._groups.get(group_id)
        out = Output()
        if isinstance(group, ClassicGroup):
            out.reply(token, group.described())
            return out
        described = DescribeGroupsResponse.DescribedGroup(group_id=group_id, group_state=DEAD.value)
        if version >= DESCRIBE_NOT_FOUND_VERSION:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            what = "not found" if group is None else "is not a classic group"
            described.error_message = f"Group {group_id} {what}."
        out.reply(token, described)
        return out

    def describe_consumer_group(self, group_id: str, token: Token) -> Output:
        """Return one group of ConsumerGroupDescribe."""
        return self._consumers.describe(group_id, token)

    def has_group(self, group_id: str) -> bool:
        """True when a group of any type has this id."""
        return group_id in self._groups

    def rebalance_causes(self, group_id: str) -> Sequence[Cause]:
        """Return the last causes of a group's rebalances, the oldest first."""
        return self._history.of(group_id)

    def delete_groups(self, group_ids: list[str], token: Token) -> Output:
        """Delete groups; return their results in order."""
        out = Output()
        results: list[DeleteGroupsResponse.DeletableGroupResult] = []
        for group_id in dict.fromkeys(group_ids):
            error = ErrorCode.NONE
            group = self._groups.get(group_id)
            try:
                if group is None:
                    raise _not_found(group_id)
                group.validate_delete()
                out.records += self._offsets.tombstones(group_id)
                out.records += group.tombstones()
            except KafkaError as refusal:
                error = refusal.code
            results.append(
                DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=error)
            )
        out.reply(token, results)
        return out

    # Time

    def next_wakeup(self) -> int | None:
        """Return when `tick` has something to do next, in milliseconds."""
        return self._timers.next_wakeup()

    def tick(self, now_ms: int) -> Decision | None:
        """Run one timer that is due; None when there is none. Call it until it returns None."""
        action = self._timers.pop_due(now_ms)
        return None if action is None else action(now_ms)

    def _expire(self, now_ms: int) -> Output:
        """Remove offsets past their retention, and empty groups that have none left."""
        records: list[Record] = []
        for group in self._groups.values():
            base_ms = group.offset_expiration_base()
            if base_ms is None:
                continue
            expired, all_expired = self._offsets.expired(
                group.group_id, base_ms, group.is_subscribed_to, now_ms
            )
            records += expired
            if all_expired and group.is_empty:
                records += group.tombstones()
        self._history.retain(self._groups)
        self._schedule_expiry(now_ms)
        if records:
            logger.info("removing expired offsets and groups records=%d", len(records))
        return Output(records=records, atomic=False)

    def _schedule_expiry(self, now_ms: int) -> None:
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._timers.schedule(("expiry",), now_ms + interval_ms, self._expire)

    # Replay

    def replay(
        self, key: Any, value: Any, *, record_offset: int = -1, producer_id: int = -1
    ) -> None:
        """Apply one record, after its append or from the log.

        `producer_id` is that of a transactional batch, -1 of any other.
        """
        if isinstance(key, LegacyOffsetCommitKey):
            key, value = _of_legacy(key, value)
        if isinstance(key, OffsetCommitKey):
            if value is not None and key.group not in self._groups:
                self._groups[key.group] = ClassicGroup(key.group)
            self._offsets.replay(key, value, record_offset, producer_id)
        elif isinstance(key, GroupMetadataKey):
            self._replay_classic(key.group, value)
        elif self._consumers.replay(key, value):
            pass
        elif type(key).__name__ not in self._unknown_keys:
            self._unknown_keys.add(type(key).__name__)
            logger.warning("ignoring records of an unsupported group type: %s", type(key).__name__)

    def _replay_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is None:
            self._groups.pop(group_id, None)
            return
        group = self._find_classic(group_id)
        # A living group keeps what its record does not hold; an older record's group does not.
        if group is None or self._is_loading:
            group = self._groups[group_id] = ClassicGroup(group_id)
        group.replay(value)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply the control record that ends a transaction of offsets."""
        self._offsets.end_transaction(producer_id, commit=commit)

    def loaded(self, now_ms: int) -> None:
        """Begin to serve after replay: state that is not persisted starts fresh.

        Every member gets a full session. A group over a lowered group.max.size rebalances.
        """
        self._is_loading = False
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                self._consumers.loaded(group, now_ms)
                continue
            for member in group.members.values():
                self._rebalancer.renew_session(group, member, now_ms)
            if len(group.members) > self._settings.max_size:
                self._rebalancer.prepare(group, "over group.max.size after loading", now_ms)
        self._schedule_expiry(now_ms)

    def unload(self, now_ms: int) -> Output:
        """End serving: requests that wait get NOT_COORDINATOR, and find the new coordinator."""
        out = Output()
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                continue
            group.transition_to(DEAD, now_ms)
            for member in group.members.values():
                if member.awaiting_join is not None:
                    response = join_error(member.member_id, ErrorCode.NOT_COORDINATOR)
                    out.reply(member.awaiting_join, response)
                if member.awaiting_sync is not None:
                    out.reply(member.awaiting_sync, sync_error(ErrorCode.NOT_COORDINATOR))
        return out


def _check_partitions(request: OffsetCommitRequest, check: PartitionCheck) -> None:
    """Validate each partition of a commit; the first error refuses the request."""
    for topic in request.topics:
        for partition in topic.partitions:
            check(topic.topic_id, partition.partition_index)


def _of_legacy(
    key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None
) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    """Convert the first format of offset records to today's."""
    today = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    if value is None:
        return today, None
    return today, OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
