"""Epochs and targets: when a group needs a new assignment, and computing it.

A `Change` collects the records of one request; the parts of the protocol add to it in the order in
which replay must see them. Kafka: GroupMetadataManager.updateSubscriptionMetadata,
maybeUpdateTargetAssignment, maybeReconcile and maybeUpdateRegularExpressions.
"""

import enum
import logging
from collections.abc import Callable, Mapping, Sequence

import attrs

from barnabas.coordinator.core.coordinator_output import Caller, DecisionTimers, Output, Record
from barnabas.coordinator.core.steps import SliceBudget, Steps
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

# The least time between two resolutions (Kafka: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
_REGEX_INTERVAL_MIN_MS = 10_000


class RegexChange(enum.Enum):
    """The change of a member's expression."""

    NONE = enum.auto()
    # It is another one, which matches topics only once it is resolved.
    UNRESOLVED = enum.auto()
    # It is another one, or none, and its topics are known.
    RESOLVED = enum.auto()


@attrs.define
class GroupContext:
    """The objects that all parts of the protocol share: one for each shard.

    `find` returns a consumer group by its id, None when there is none of this type.
    """

    configs: GroupConfigs
    timers: DecisionTimers
    topics: Topics
    history: RebalanceHistory
    find: Callable[[str], ConsumerGroup | None]

    def metadata_hash_after(self, group: ConsumerGroup, moves: Sequence[Move]) -> Steps[int]:
        """Return the hash of a group's topics after these changes of members."""
        topics = group.subscriptions.topics_after(moves)
        if topics is None:
            if not group.wants_metadata:
                return group.metadata_hash
            topics = group.subscriptions.topics()
        return (yield from self.topics.metadata_hash(topics))


@attrs.define
class Change:
    """The change of one member by a request; `before` is the group's member, or a new one."""

    group: ConsumerGroup
    before: ConsumerMember
    after: ConsumerMember
    now_ms: int
    records: list[Record] = attrs.Factory(list[Record])
    # Expressions to resolve once the records are written.
    regexes: frozenset[str] = frozenset()

    @property
    def replaces(self) -> ConsumerMember | None:
        """The static member of another id that this member replaces."""
        holder = self.group.static_member(self.after.instance_id)
        return None if holder is None or holder.member_id == self.after.member_id else holder


class Rebalances:
    """Takes a group and one of its members through a rebalance."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        # Groups whose expressions are being resolved.
        self._resolving: set[str] = set()

    def advance(
        self, change: Change, claimed: Claimed, *, cause: str, classic: bool = False
    ) -> Steps[ConsumerMember]:
        """Carry out a change or return of a member; return the member afterwards.

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
        """Write the member; return whether its subscription changed, and the epoch rises."""
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
        """True when expressions are new, topics were created, or the interval is over."""
        subscriptions = change.group.subscriptions
        last = subscriptions.last_resolution
        if last is None:
            return True
        if change.now_ms <= last.timestamp_ms + _REGEX_INTERVAL_MIN_MS:
            return False
        interval_ms = self._context.configs.settings.consumer_regex_refresh_interval_ms
        return (
            fresh
            or len(regexes) != len(subscriptions.resolved)
            or last.version < self._context.topics.newest_version
            or change.now_ms > last.timestamp_ms + interval_ms
        )

    def ask_to_resolve(self, group_id: str, regexes: frozenset[str], caller: Caller) -> Output:
        """Request a resolution of the expressions, unless one is in progress for the group.

        It is a separate decision, after the one that led to it was written. The group gets the
        topics that `caller` may see.
        """
        if group_id in self._resolving:
            return Output()
        self._resolving.add(group_id)
        return Output(effects=[regex_subscriptions.ResolutionRequest(group_id, regexes, caller)])

    def resolved(
        self, group_id: str, found: Mapping[str, frozenset[str]], version: int, now_ms: int
    ) -> Steps[Output]:
        """Apply the topics that expressions match; the epoch rises when they have changed.

        `version` is the metadata offset that they were matched at.
        """
        self._resolving.discard(group_id)
        context = self._context
        group = context.find(group_id)
        if group is None:
            return Output()
        subscriptions = group.subscriptions
        resolved = {
            one: names
            for one, names in found.items()
            if subscriptions.regexes[one]  # else its last member has left
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
        metadata_hash = yield from context.topics.metadata_hash(topics)
        if raises or metadata_hash != group.metadata_hash:
            epoch = group.group_epoch + 1
            written.append(consumer_records.group_epoch(group_id, epoch, metadata_hash))
            group.metadata_epoch = epoch
            context.history.note(group_id, now_ms, epoch, "regular expressions match other topics")
        return Output(records=written)

    # The group epoch

    def raise_epoch(self, change: Change, raises: bool, cause: str) -> Steps[int]:
        """Raise the group epoch if needed; return the epoch afterwards."""
        group = change.group
        epoch = group.group_epoch
        if not raises and not group.wants_metadata:
            return epoch
        yield
        moves = [(change.before, change.after)]
        metadata_hash = yield from self._context.metadata_hash_after(group, moves)
        if metadata_hash != group.metadata_hash and not raises:
            raises, cause = True, "the topics that it subscribes to have changed"
        if raises:
            epoch += 1
            change.records.append(
                consumer_records.group_epoch(group.group_id, epoch, metadata_hash)
            )
            self._context.history.note(group.group_id, change.now_ms, epoch, cause)
        group.metadata_epoch = epoch
        if group.has_partition_metadata:
            change.records.append(consumer_records.partition_metadata_tombstone(group.group_id))
        return epoch

    # The target

    def update_target(self, change: Change, epoch: int) -> Steps[tuple[int, Assignment]]:
        """Return the epoch of the target and the member's part; compute a new one if it is time."""
        group = change.group
        present = group.assignment_epoch, group.target_of(change.after)
        if group.assignment_epoch >= epoch:
            return present
        interval_ms = self._context.configs.assignment_interval_ms(group.group_id)
        computed_ms = group.assignment_timestamp_ms
        if computed_ms and interval_ms and change.now_ms < computed_ms + interval_ms:
            return present
        assignments = yield from self._assign(change, epoch)
        budget = SliceBudget()
        for member_id, assignment in assignments.items():
            if assignment != group.target.get(member_id):
                change.records.append(
                    consumer_records.target_member(group.group_id, member_id, assignment)
                )
                if budget.is_due(len(assignment)):
                    yield
        change.records.append(
            consumer_records.target_metadata(group.group_id, epoch, change.now_ms)
        )
        return epoch, assignments[change.after.member_id]

    def _assign(self, change: Change, epoch: int) -> Steps[dict[str, Assignment]]:
        group = change.group
        assignors = self._context.configs.settings.consumer_assignors
        wanted = group.preferred_assignor(change.before, change.after)
        # A record may name an assignor that is no longer configured.
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
        """Return the group with the changed member, as assignors see it."""
        group, after, replaced = change.group, change.after, change.replaces
        members = {**group.members, after.member_id: after}
        targets = group.target
        if replaced is not None:
            del members[replaced.member_id]
            targets = {**targets, after.member_id: targets.get(replaced.member_id, NO_ASSIGNMENT)}
        topics = self._context.topics
        specs: dict[str, MemberSpec] = {}
        partitions: dict[Uuid, int] = {}
        ids: dict[frozenset[str], frozenset[Uuid]] = {}
        budget = SliceBudget()
        for member_id, member in members.items():
            names = group.subscriptions.topics_of(member)
            topic_ids = ids.get(names)
            if topic_ids is None:
                topic_ids = ids[names] = topics.ids(names)
                for some in budget.chunks(topic_ids):
                    partitions |= topics.partition_counts(some)
                    if budget.is_due(len(some)):
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
        """Move the member one step towards its target."""
        group, member = change.group, change.after
        if not subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        topics = group.subscriptions.topics_of(member)
        reconciliation = Reconciliation(
            target_epoch=target_epoch,
            target=target,
            subscribed=self._context.topics.ids(topics),
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
            "member reconciled group=%s member=%s epoch=%d state=%s",
            group.group_id,
            stepped.member_id,
            stepped.member_epoch,
            stepped.state.name,
        )
        return stepped
