"""Epochs and targets: when a group needs a new assignment, and making it.

A `Decision` gathers the records of one request; the parts of the protocol add to it in the order
in which replay has to see them. Kafka: GroupMetadataManager.updateSubscriptionMetadata,
maybeUpdateTargetAssignment, maybeReconcile and maybeUpdateRegularExpressions.
"""

import enum
import logging
from collections.abc import Callable, Mapping, Sequence

import attrs

from barnabas.coordinator.core.coordinator_output import DecisionTimers, Output, Record
from barnabas.coordinator.core.steps import Pace, Steps
from barnabas.coordinator.groups.consumer import consumer_records, regex_subscriptions
from barnabas.coordinator.groups.consumer.assignors.assignor import (
    AssignorError,
    GroupSpec,
    MemberSpec,
    assigned,
)
from barnabas.coordinator.groups.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.groups.consumer.consumer_member import (
    NO_ASSIGNMENT,
    Assignment,
    ConsumerMember,
)
from barnabas.coordinator.groups.consumer.consumer_settings import GroupConfigs
from barnabas.coordinator.groups.consumer.reconciliation import Claimed, Reconciliation
from barnabas.coordinator.groups.consumer.subscribed_topics import Topics
from barnabas.coordinator.groups.consumer.subscription_counts import Move
from barnabas.coordinator.groups.rebalance_history import RebalanceHistory
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)

# Expressions are not resolved again sooner (Kafka: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
_REGEX_INTERVAL_MIN_MS = 10_000


class RegexChange(enum.Enum):
    """What became of a member's expression."""

    NONE = enum.auto()
    # It has another one, which stands for topics only once it is resolved.
    UNRESOLVED = enum.auto()
    # It has another one, or none, and what that stands for is known.
    RESOLVED = enum.auto()


@attrs.define
class Surroundings:
    """What all parts of the protocol share: one for each shard.

    `find` gives a consumer group by its id, None where there is none of this type.
    """

    configs: GroupConfigs
    timers: DecisionTimers
    topics: Topics
    history: RebalanceHistory
    find: Callable[[str], ConsumerGroup | None]

    def metadata_hash_after(self, group: ConsumerGroup, moves: Sequence[Move]) -> Steps[int]:
        """The hash of a group's topics once some members have become others."""
        topics = group.subscriptions.topics_after(moves)
        if topics is None:
            if not group.wants_metadata:
                return group.metadata_hash
            topics = group.subscriptions.topics()
        return (yield from self.topics.metadata_hash(topics))


@attrs.define
class Change:
    """How one member changes in a request: `before` is as the group has it (or a new one)."""

    group: ConsumerGroup
    before: ConsumerMember
    after: ConsumerMember
    now_ms: int
    records: list[Record] = attrs.Factory(list[Record])
    # Expressions to resolve once the records are written.
    regexes: frozenset[str] = frozenset()

    @property
    def replaces(self) -> ConsumerMember | None:
        """The static member of another id whose place is taken."""
        holder = self.group.static_member(self.after.instance_id)
        return None if holder is None or holder.member_id == self.after.member_id else holder


class Rebalances:
    """Leads a group and the member in hand through a rebalance."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        # Groups whose expressions are being looked up.
        self._resolving: set[str] = set()

    def advance(
        self, change: Change, claimed: Claimed, *, cause: str, classic: bool = False
    ) -> Steps[ConsumerMember]:
        """Does all that a changed or returning member brings about; the member as it is then.

        Raises KafkaError: INVALID_REGULAR_EXPRESSION, FENCED_MEMBER_EPOCH, UNKNOWN_SERVER_ERROR
        when the assignor fails.
        """
        subscription_changed, raises = self.subscribe(change, classic=classic)
        if not (subscription_changed or raises) and change.group.is_settled_for(change.after):
            return change.after
        epoch = yield from self.raise_epoch(change, raises, cause)
        target_epoch, target = yield from self.update_target(change, epoch)
        return (
            yield from self.reconcile(change, target_epoch, target, subscription_changed, claimed)
        )

    # Subscription

    def subscribe(self, change: Change, *, classic: bool = False) -> tuple[bool, bool]:
        """Writes what the member says; whether its subscription changed, and the epoch rises."""
        before, after = change.before, change.after
        if after is not before and after != before:
            change.records.append(
                consumer_records.member_subscription(change.group.group_id, after)
            )
        names_changed = after.subscribed_names != before.subscribed_names
        regex_change = self._update_regexes(change)
        changed = names_changed or regex_change is not RegexChange.NONE
        raises = names_changed or regex_change is RegexChange.RESOLVED
        return changed, changed if classic else raises

    def _update_regexes(self, change: Change) -> RegexChange:
        group, old, new = change.group, change.before, change.after
        subscriptions = group.subscriptions
        old_regex, new_regex = old.subscribed_regex, new.subscribed_regex
        if old_regex == new_regex and not subscriptions.regexes:
            return RegexChange.NONE
        status, fresh = RegexChange.NONE, False
        if old_regex != new_regex:
            status = RegexChange.UNRESOLVED
            if old_regex and subscriptions.last_subscribed(old_regex):
                change.records.append(
                    consumer_records.regular_expression_tombstone(group.group_id, old_regex)
                )
            if not new_regex:
                status = RegexChange.RESOLVED
            elif not subscriptions.regexes[new_regex]:
                regex_subscriptions.validate(new_regex)
                fresh = True
            elif new_regex in subscriptions.resolved:
                status = RegexChange.RESOLVED
        regexes = set(subscriptions.regexes)
        if old_regex and old_regex != new_regex and subscriptions.last_subscribed(old_regex):
            regexes.discard(old_regex)
        if new_regex:
            regexes.add(new_regex)
        if regexes and self._wants_resolution(change, regexes, fresh=fresh):
            change.regexes = frozenset(regexes)
        return status

    def _wants_resolution(self, change: Change, regexes: set[str], *, fresh: bool) -> bool:
        """Whether expressions are new, topics have come, or it is time again."""
        subscriptions = change.group.subscriptions
        last = subscriptions.last_resolution
        if last is None:
            return True
        if change.now_ms <= last.timestamp_ms + _REGEX_INTERVAL_MIN_MS:
            return False
        interval_ms = self._around.configs.settings.consumer_regex_refresh_interval_ms
        return (
            fresh
            or len(regexes) != len(subscriptions.resolved)
            or last.version < self._around.topics.newest_version
            or change.now_ms > last.timestamp_ms + interval_ms
        )

    def ask_to_resolve(self, group_id: str, regexes: frozenset[str]) -> Output:
        """Has the expressions looked up outside, unless that is under way for the group.

        It is a decision of its own, after the one that led to it was written.
        """
        if group_id in self._resolving:
            return Output()
        self._resolving.add(group_id)
        return Output(effects=[regex_subscriptions.ResolutionRequest(group_id, regexes)])

    def resolved(
        self, group_id: str, found: Mapping[str, frozenset[str]], version: int, now_ms: int
    ) -> Steps[Output]:
        """Takes in which topics expressions stand for; the epoch rises if that has changed.

        `version` is the metadata offset that was looked at.
        """
        self._resolving.discard(group_id)
        around = self._around
        group = around.find(group_id)
        if group is None:
            return Output()
        subscriptions = group.subscriptions
        resolved = {
            one: names
            for one, names in found.items()
            if subscriptions.regexes[one]  # else its last member has gone meanwhile
        }
        written = [
            consumer_records.regular_expression(group_id, one, names, version, now_ms)
            for one, names in resolved.items()
        ]
        nothing = regex_subscriptions.Resolved()
        raises = any(
            subscriptions.resolved.get(one, nothing).topics != names
            for one, names in resolved.items()
        )
        yield
        topics = subscriptions.topics_with(resolved)
        metadata_hash = yield from around.topics.metadata_hash(topics)
        if raises or metadata_hash != group.metadata_hash:
            epoch = group.group_epoch + 1
            written.append(consumer_records.group_epoch(group_id, epoch, metadata_hash))
            group.metadata_epoch = epoch
            around.history.note(group_id, now_ms, epoch, "regular expressions match other topics")
        return Output(records=written)

    # The group epoch

    def raise_epoch(self, change: Change, raises: bool, cause: str) -> Steps[int]:
        """Raises the group epoch if something calls for it; the epoch there is then."""
        group = change.group
        epoch = group.group_epoch
        if not raises and not group.wants_metadata:
            return epoch
        yield
        moves = [(change.before, change.after)]
        metadata_hash = yield from self._around.metadata_hash_after(group, moves)
        if metadata_hash != group.metadata_hash and not raises:
            raises, cause = True, "the topics that it subscribes to have changed"
        if raises:
            epoch += 1
            change.records.append(
                consumer_records.group_epoch(group.group_id, epoch, metadata_hash)
            )
            self._around.history.note(group.group_id, change.now_ms, epoch, cause)
        group.metadata_epoch = epoch
        if group.has_partition_metadata:
            change.records.append(consumer_records.partition_metadata_tombstone(group.group_id))
        return epoch

    # The target

    def update_target(self, change: Change, epoch: int) -> Steps[tuple[int, Assignment]]:
        """The epoch of the target and the member's part of it, computed anew if it is time."""
        group = change.group
        present = group.assignment_epoch, group.target_of(change.after)
        if group.assignment_epoch >= epoch:
            return present
        interval_ms = self._around.configs.assignment_interval_ms(group.group_id)
        computed_ms = group.assignment_timestamp_ms
        if computed_ms and interval_ms and change.now_ms < computed_ms + interval_ms:
            return present
        assignments = yield from self._assign(change, epoch)
        pace = Pace()
        for member_id, assignment in assignments.items():
            if assignment != group.target.get(member_id):
                change.records.append(
                    consumer_records.target_member(group.group_id, member_id, assignment)
                )
                if pace.is_due(len(assignment)):
                    yield
        change.records.append(
            consumer_records.target_metadata(group.group_id, epoch, change.now_ms)
        )
        return epoch, assignments[change.after.member_id]

    def _assign(self, change: Change, epoch: int) -> Steps[dict[str, Assignment]]:
        group = change.group
        assignors = self._around.configs.settings.consumer_assignors
        wanted = group.preferred_assignor(change.before, change.after)
        # A name in a record may be of an assignor that is configured no more.
        assignor = assignors.get(wanted or "") or next(iter(assignors.values()))
        spec = yield from self._spec(change)
        try:
            assignments = yield from assigned(assignor, spec)
        except Exception as error:
            message = f"Failed to compute a new target assignment for epoch {epoch}: {error}"
            logger.error(
                "%s group=%s assignor=%s",
                message,
                group.group_id,
                assignor.name,
                exc_info=None if isinstance(error, AssignorError) else error,
            )
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message) from error
        logger.info(
            "new target assignment group=%s epoch=%d assignor=%s members=%d",
            group.group_id,
            epoch,
            assignor.name,
            len(assignments),
        )
        return assignments

    def _spec(self, change: Change) -> Steps[GroupSpec]:
        """The group with the member in hand as it is from now on."""
        group, after, replaced = change.group, change.after, change.replaces
        members = {**group.members, after.member_id: after}
        targets = group.target
        if replaced is not None:
            del members[replaced.member_id]
            targets = {**targets, after.member_id: targets.get(replaced.member_id, NO_ASSIGNMENT)}
        topics = self._around.topics
        specs: dict[str, MemberSpec] = {}
        partitions: dict[Uuid, int] = {}
        ids: dict[frozenset[str], frozenset[Uuid]] = {}
        pace = Pace()
        for member_id, member in members.items():
            names = group.subscriptions.topics_of(member)
            topic_ids = ids.get(names)
            if topic_ids is None:
                topic_ids = ids[names] = topics.ids(names)
                for some in pace.chunks(topic_ids):
                    partitions |= topics.partition_counts(some)
                    if pace.is_due(len(some)):
                        yield
            specs[member_id] = MemberSpec(
                member_id,
                topic_ids,
                targets.get(member_id, NO_ASSIGNMENT),
                member.instance_id,
                member.rack_id,
            )
        return GroupSpec(members=specs, partitions=partitions, racks=topics.racks)

    # The member

    def reconcile(
        self,
        change: Change,
        target_epoch: int,
        target: Assignment,
        subscription_changed: bool,
        claimed: Claimed,
    ) -> Steps[ConsumerMember]:
        """Takes the member one step on towards its target."""
        group, member = change.group, change.after
        if not subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        topics = group.subscriptions.topics_of(member)
        reconciliation = Reconciliation(
            target_epoch=target_epoch,
            target=target,
            subscribed=self._around.topics.ids(topics),
            subscription_changed=subscription_changed,
            claimed=claimed,
            holders=group.partition_epochs,
        )
        stepped = yield from reconciliation.step(member)
        if stepped is member or stepped == member:
            return member
        yield
        change.records.append(consumer_records.current_assignment(group.group_id, stepped))
        yield
        logger.debug(
            "member moves group=%s member=%s epoch=%d state=%s",
            group.group_id,
            stepped.member_id,
            stepped.member_epoch,
            stepped.state.name,
        )
        return stepped
