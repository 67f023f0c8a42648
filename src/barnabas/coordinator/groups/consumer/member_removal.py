"""Removing members of a consumer group: leave, fence, session expiry; and their timers.

| key | deadline | reason |
| --- | --- | --- |
| `("session", group, member)` | session timeout after the last heartbeat | the member is gone |
| `("rebalance", group, member)` | rebalance timeout after a revocation began | not confirmed |
| `("join", group, member)` | rebalance timeout after a classic member must rejoin | it has not |
| `("sync", group, member)` | rebalance timeout after a classic member's join | it has not synced |

Kafka: GroupMetadataManager.consumerGroupFenceMembers and its timers.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial

from barnabas.coordinator.core.coordinator_output import Decision, Output, Record
from barnabas.coordinator.core.steps import Steps
from barnabas.coordinator.groups.consumer import consumer_records
from barnabas.coordinator.groups.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.groups.consumer.consumer_member import ConsumerMember
from barnabas.coordinator.groups.consumer.migration import Downgrades
from barnabas.coordinator.groups.consumer.target_assignment import GroupContext
from barnabas.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

# A removal that could not be written is tried again (as Kafka's CoordinatorTimer does).
_RETRY_MS = 500


class Removals:
    """Removes members, and runs the timers that do so."""

    def __init__(self, context: GroupContext, downgrades: Downgrades) -> None:
        self._context = context
        self._downgrades = downgrades

    def remove(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], cause: str, now_ms: int
    ) -> Steps[Output]:
        """Return the removal; a group left with classic members only becomes classic."""
        if not members:
            return Output()
        group_id = group.group_id
        if self._downgrades.allows_without(group, members):
            out = self._downgrades.without(group, members, cause, now_ms)
            return self._then_forget(group_id, members, out)
        written = [
            record
            for member in members
            for record in consumer_records.member_tombstones(group_id, member.member_id)
        ]
        written += self._regex_tombstones(group, members)
        moves = [(member, None) for member in members]
        metadata_hash = yield from self._context.metadata_hash_after(group, moves)
        epoch = group.group_epoch + 1
        written.append(consumer_records.group_epoch(group_id, epoch, metadata_hash))
        self._context.history.note(group_id, now_ms, epoch, cause)
        return self._then_forget(group_id, members, Output(records=written))

    def _then_forget(self, group_id: str, members: Sequence[ConsumerMember], out: Output) -> Output:
        """Return a continuation that cancels the timers once the removal is written."""
        following = out.then

        def then(now_ms: int) -> Decision:
            for member in members:
                self._cancel_timers(group_id, member.member_id)
            return Output() if following is None else following(now_ms)

        out.then = then
        return out

    def _regex_tombstones(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember]
    ) -> list[Record]:
        gone = Counter(member.subscribed_regex for member in members if member.subscribed_regex)
        return [
            consumer_records.regular_expression_tombstone(group.group_id, regex)
            for regex, leaving in gone.items()
            if group.subscriptions.last_subscribed(regex, leaving)
        ]

    # Timers

    def renew_session(
        self, group_id: str, member_id: str, now_ms: int, timeout_ms: int | None = None
    ) -> None:
        """Renew a member's session; `timeout_ms` replaces the group's session timeout."""
        if timeout_ms is None:
            timeout_ms = self._context.configs.session_timeout_ms(group_id)
        self._context.timers.schedule(
            ("session", group_id, member_id),
            now_ms + timeout_ms,
            partial(self._expire, group_id, member_id, "missed its heartbeats"),
        )

    def await_revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Schedule the removal of a member unless it revokes its partitions in time."""
        self._context.timers.schedule(
            ("rebalance", group_id, member.member_id),
            now_ms + member.rebalance_timeout_ms,
            partial(self._revocation_overdue, group_id, member.member_id, member.member_epoch),
        )

    def end_revocation(self, group_id: str, member_id: str) -> None:
        """Cancel the timer: the member has revoked its partitions."""
        self._context.timers.cancel(("rebalance", group_id, member_id))

    def await_join(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Schedule the removal of a classic member unless it rejoins in time.

        An earlier deadline stays.
        """
        key = ("join", group_id, member.member_id)
        if key not in self._context.timers:
            self._context.timers.schedule(
                key,
                now_ms + member.rebalance_timeout_ms,
                partial(self._expire, group_id, member.member_id, "did not rejoin in time"),
            )

    def end_join(self, group_id: str, member_id: str) -> None:
        """Cancel the timer: the classic member has rejoined."""
        self._context.timers.cancel(("join", group_id, member_id))

    def await_sync(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Schedule the removal of a classic member that has joined unless it syncs in time."""
        self._context.timers.schedule(
            ("sync", group_id, member.member_id),
            now_ms + member.rebalance_timeout_ms,
            partial(self._expire, group_id, member.member_id, "did not sync in time"),
        )

    def end_sync(self, group_id: str, member_id: str) -> None:
        """Cancel the timer: the classic member has synced."""
        self._context.timers.cancel(("sync", group_id, member_id))

    def _cancel_timers(self, group_id: str, member_id: str) -> None:
        """Cancel all timers of a member."""
        for kind in ("session", "rebalance", "join", "sync"):
            self._context.timers.cancel((kind, group_id, member_id))

    def _expire(self, group_id: str, member_id: str, why: str, now_ms: int) -> Steps[Output]:
        group = self._context.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return Output()
        logger.info("removed member group=%s member=%s: it %s", group_id, member_id, why)

        def refused(_error: ErrorCode, then_ms: int) -> Output:
            self._context.timers.schedule(
                ("session", group_id, member_id),
                then_ms + _RETRY_MS,
                partial(self._expire, group_id, member_id, why),
            )
            return Output()

        out = yield from self.remove(group, [member], f"member {member_id} {why}", now_ms)
        out.refused = refused
        return out

    def _revocation_overdue(
        self, group_id: str, member_id: str, member_epoch: int, now_ms: int
    ) -> Decision:
        group = self._context.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is None or member.member_epoch != member_epoch:
            return Output()
        return self._expire(group_id, member_id, "did not give up its partitions in time", now_ms)
