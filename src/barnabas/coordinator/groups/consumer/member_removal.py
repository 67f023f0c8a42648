"""Members that leave a consumer group, are put out, or are not heard of: their end, and timers.

| key | runs | because |
| --- | --- | --- |
| `("session", group, member)` | session timeout after its last sign of life | it has died |
| `("rebalance", group, member)` | rebalance timeout after it was told to give up | it has not |
| `("join", group, member)` | as long, after a classic member was told to rejoin | it has not |
| `("sync", group, member)` | as long, after a classic member's join was answered | it has not |

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
from barnabas.coordinator.groups.consumer.target_assignment import Surroundings
from barnabas.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

# When the end of a member could not be written it is tried again (as Kafka's CoordinatorTimer).
_RETRY_MS = 500


class Removals:
    """Takes members out, and keeps the timers that do."""

    def __init__(self, around: Surroundings, downgrades: Downgrades) -> None:
        self._around = around
        self._downgrades = downgrades

    def remove(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], cause: str, now_ms: int
    ) -> Steps[Output]:
        """What removes members; without the last of the consumer protocol, the group is classic."""
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
        metadata_hash = yield from self._around.metadata_hash_after(group, moves)
        epoch = group.group_epoch + 1
        written.append(consumer_records.group_epoch(group_id, epoch, metadata_hash))
        self._around.history.note(group_id, now_ms, epoch, cause)
        return self._then_forget(group_id, members, Output(records=written))

    def _then_forget(self, group_id: str, members: Sequence[ConsumerMember], out: Output) -> Output:
        """Once it is written: a member whose end was refused keeps its timers."""
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
        """A sign of life; `timeout_ms` in place of the group's session timeout."""
        if timeout_ms is None:
            timeout_ms = self._around.configs.session_timeout_ms(group_id)
        self._around.timers.schedule(
            ("session", group_id, member_id),
            now_ms + timeout_ms,
            partial(self._expire, group_id, member_id, "missed its heartbeats"),
        )

    def await_revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """The member has its rebalance timeout to give up what it was told to."""
        self._around.timers.schedule(
            ("rebalance", group_id, member.member_id),
            now_ms + member.rebalance_timeout_ms,
            partial(self._revocation_overdue, group_id, member.member_id, member.member_epoch),
        )

    def end_revocation(self, group_id: str, member_id: str) -> None:
        """The member has given up what it was told to."""
        self._around.timers.cancel(("rebalance", group_id, member_id))

    def await_join(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """A classic member was told to rejoin; being told again gives it no more time."""
        key = ("join", group_id, member.member_id)
        if key not in self._around.timers:
            self._around.timers.schedule(
                key,
                now_ms + member.rebalance_timeout_ms,
                partial(self._expire, group_id, member.member_id, "did not rejoin in time"),
            )

    def end_join(self, group_id: str, member_id: str) -> None:
        """The classic member has rejoined."""
        self._around.timers.cancel(("join", group_id, member_id))

    def await_sync(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """A classic member has joined and is to sync."""
        self._around.timers.schedule(
            ("sync", group_id, member.member_id),
            now_ms + member.rebalance_timeout_ms,
            partial(self._expire, group_id, member.member_id, "did not sync in time"),
        )

    def end_sync(self, group_id: str, member_id: str) -> None:
        """The classic member has synced."""
        self._around.timers.cancel(("sync", group_id, member_id))

    def _cancel_timers(self, group_id: str, member_id: str) -> None:
        """Nothing is expected of the member any more."""
        for kind in ("session", "rebalance", "join", "sync"):
            self._around.timers.cancel((kind, group_id, member_id))

    def _expire(self, group_id: str, member_id: str, why: str, now_ms: int) -> Steps[Output]:
        group = self._around.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return Output()
        logger.info("removed a member group=%s member=%s: it %s", group_id, member_id, why)

        def refused(_error: ErrorCode, then_ms: int) -> Output:
            self._around.timers.schedule(
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
        group = self._around.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is None or member.member_epoch != member_epoch:
            return Output()
        return self._expire(group_id, member_id, "did not give up its partitions in time", now_ms)
