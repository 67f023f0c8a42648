"""The phases of a rebalance, and the timers that end them without the members.

Kafka: GroupMetadataManager's classic part. Timers, by key:

| key | deadline | reason |
| --- | --- | --- |
| `("session", group, member)` | session timeout after its last heartbeat | the member is gone |
| `("join", group)` | rebalance timeout after a rebalance began | some do not rejoin |
| `("sync", group)` | rebalance timeout after the join phase | some do not sync |
"""

import logging
from collections.abc import Callable
from functools import partial

from barnabas.coordinator.core.coordinator_output import DecisionTimers, Output
from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.coordinator.groups.classic.classic_member import ClassicMember
from barnabas.coordinator.groups.classic.classic_responses import (
    UNKNOWN_MEMBER,
    join_error,
    joined,
    sync_error,
    synced,
)
from barnabas.coordinator.groups.classic.classic_state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    REBALANCEABLE,
    STABLE,
)
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.offset_and_group_records import group_metadata
from barnabas.coordinator.groups.rebalance_history import RebalanceHistory
from barnabas.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class Rebalancer:
    """Moves classic groups from one generation to the next.

    `find` returns a classic group by its id, None when there is none.
    """

    def __init__(
        self,
        settings: GroupSettings,
        timers: DecisionTimers,
        find: Callable[[str], ClassicGroup | None],
        history: RebalanceHistory,
    ) -> None:
        self.settings = settings
        self.timers = timers
        self.find = find
        self._history = history

    # Beginning

    def prepare_or_complete(self, group: ClassicGroup, reason: str, now_ms: int) -> Output:
        """Begin a rebalance, or end the join phase of the running one when it is complete."""
        if group.state in REBALANCEABLE:
            return self.prepare(group, reason, now_ms)
        return self.maybe_complete_join(group, now_ms)

    def prepare(self, group: ClassicGroup, reason: str, now_ms: int) -> Output:
        """Begin a rebalance: members must rejoin or are removed.

        An empty group waits `group.initial.rebalance.delay.ms` for more members.
        """
        out = Output()
        if group.state is COMPLETING_REBALANCE:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, out, now_ms)
        group.pending_syncs.clear()
        self.timers.cancel(("sync", group.group_id))
        self._history.note(group.group_id, now_ms, group.generation_id, reason)
        initial = group.state is EMPTY
        group.transition_to(PREPARING_REBALANCE, now_ms)
        logger.info(
            "preparing to rebalance group=%s generation=%d reason=%s",
            group.group_id,
            group.generation_id,
            reason,
        )
        if initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._schedule_initial(group.group_id, delay_ms, remaining_ms, now_ms)
            return out
        if group.has_all_members_joined:
            return out.absorb(self.complete_join(group, now_ms))
        self._schedule_join(group, now_ms)
        return out

    def _schedule_initial(
        self, group_id: str, delay_ms: int, remaining_ms: int, now_ms: int
    ) -> None:
        action = partial(self._initial_delay_over, group_id, delay_ms, remaining_ms)
        self.timers.schedule(("join", group_id), now_ms + delay_ms, action)

    def _initial_delay_over(
        self, group_id: str, delay_ms: int, remaining_ms: int, now_ms: int
    ) -> Output:
        """Wait again when a member joined during the delay, up to the rebalance timeout."""
        group = self.find(group_id)
        if group is None:
            return Output()
        if not group.new_member_added or not remaining_ms:
            return self.complete_join(group, now_ms)
        group.new_member_added = False
        next_delay_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
        self._schedule_initial(group_id, next_delay_ms, max(remaining_ms - delay_ms, 0), now_ms)
        return Output()

    # The join phase

    def maybe_complete_join(self, group: ClassicGroup, now_ms: int) -> Output:
        """End the join phase when all have joined; an initial rebalance waits for its delay."""
        if (
            group.state is not PREPARING_REBALANCE
            or group.previous_state is EMPTY
            or not group.has_all_members_joined
        ):
            return Output()
        return self.complete_join(group, now_ms)

    def complete_join(self, group: ClassicGroup, now_ms: int) -> Output:
        """End the join phase: remove who has not rejoined, begin the next generation.

        Static members stay until their session ends.
        """
        self.timers.cancel(("join", group.group_id))
        for member in list(group.members.values()):
            if member.awaiting_join is None and not member.is_static:
                group.remove(member.member_id)
                self.timers.cancel(("session", group.group_id, member.member_id))
                logger.info(
                    "removed member that did not rejoin group=%s member=%s",
                    group.group_id,
                    member.member_id,
                )
        if not group.members:
            return self._become_empty(group, now_ms)
        if not group.elect_joined_leader():
            self._schedule_join(group, now_ms)
            return Output()
        return self._begin_generation(group, now_ms)

    def _schedule_join(self, group: ClassicGroup, now_ms: int) -> None:
        self.timers.schedule(
            ("join", group.group_id),
            now_ms + group.rebalance_timeout_ms,
            partial(self._join_expired, group.group_id),
        )

    def _join_expired(self, group_id: str, now_ms: int) -> Output:
        group = self.find(group_id)
        return Output() if group is None else self.complete_join(group, now_ms)

    def _become_empty(self, group: ClassicGroup, now_ms: int) -> Output:
        """Begin an empty generation, in memory even when it cannot be written.

        If the node fails before the next rebalance, the log has the members of the previous
        generation, and their sessions expire.
        """
        value = group.empty_record_value(now_ms)

        def refused(error: ErrorCode, _now_ms: int) -> Output:
            logger.warning(
                "cannot write the empty generation group=%s error=%s", group.group_id, error.name
            )
            group.replay(value)
            return Output()

        return Output(records=[group_metadata(group.group_id, value)], refused=refused)

    def _begin_generation(self, group: ClassicGroup, now_ms: int) -> Output:
        out = Output()
        group.begin_generation(now_ms)
        logger.info(
            "join phase complete group=%s generation=%d members=%d",
            group.group_id,
            group.generation_id,
            len(group.members),
        )
        for member in group.members.values():
            if member.awaiting_join is not None:
                is_leader = group.is_leader(member.member_id)
                out.reply(
                    member.awaiting_join, joined(group, member.member_id, with_members=is_leader)
                )
                member.awaiting_join = None
            member.is_new = False
            self.renew_session(group, member, now_ms)
        self.timers.schedule(
            ("sync", group.group_id),
            now_ms + group.rebalance_timeout_ms,
            partial(self._sync_expired, group.group_id, group.generation_id),
        )
        return out

    # The sync phase

    def note_sync(self, group: ClassicGroup, member_id: str) -> None:
        """Note that a member has synced; when all have, cancel the timer."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self.timers.cancel(("sync", group.group_id))

    def answer_syncs(self, group: ClassicGroup, out: Output, now_ms: int) -> None:
        """Answer every member that waits with its assignment, and renew its session."""
        for member in group.members.values():
            if member.awaiting_sync is not None:
                out.reply(member.awaiting_sync, synced(group, member.member_id))
                member.awaiting_sync = None
                self.renew_session(group, member, now_ms)

    def fail_syncs(self, group: ClassicGroup, error: ErrorCode, out: Output, now_ms: int) -> None:
        """End the sync phase without assignments."""
        for member in group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                out.reply(member.awaiting_sync, sync_error(error))
                member.awaiting_sync = None
                self.renew_session(group, member, now_ms)

    def _sync_expired(self, group_id: str, generation_id: int, now_ms: int) -> Output:
        group = self.find(group_id)
        if (
            group is None
            or group.generation_id != generation_id
            or group.state not in (COMPLETING_REBALANCE, STABLE)
            or not group.pending_syncs
        ):
            return Output()
        late = sorted(group.pending_syncs)
        for member_id in late:
            group.remove(member_id)
            self.timers.cancel(("session", group_id, member_id))
        return self.prepare(group, f"removing {', '.join(late)}: no sync in time", now_ms)

    # Sessions

    def renew_session(
        self, group: ClassicGroup, member: ClassicMember, now_ms: int, timeout_ms: int | None = None
    ) -> None:
        """Renew a member's session; `timeout_ms` replaces the member's session timeout."""
        self.schedule_session(
            group.group_id,
            member.member_id,
            now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms),
        )

    def schedule_session(self, group_id: str, member_id: str, deadline_ms: int) -> None:
        """Expire the member, joined or pending, at `deadline_ms`."""
        self.timers.schedule(
            ("session", group_id, member_id),
            deadline_ms,
            partial(self._session_expired, group_id, member_id),
        )

    def _session_expired(self, group_id: str, member_id: str, now_ms: int) -> Output:
        group = self.find(group_id)
        if group is None:
            return Output()
        if member_id in group.pending_joins:
            return self.remove_pending(group, member_id, now_ms)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return Output()
        out = Output()
        self.remove(group, member, out)
        reason = f"member {member_id} missed its heartbeats"
        if group.state in (STABLE, COMPLETING_REBALANCE):
            return out.absorb(self.prepare_or_complete(group, reason, now_ms))
        if group.state is PREPARING_REBALANCE and group.has_all_members_joined:
            return out.absorb(self.complete_join(group, now_ms))
        return out

    def remove(self, group: ClassicGroup, member: ClassicMember, out: Output) -> None:
        """Remove a member; a parked join is refused, so the member begins again."""
        self.timers.cancel(("session", group.group_id, member.member_id))
        if member.awaiting_join is not None:
            out.reply(member.awaiting_join, join_error(UNKNOWN_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID))
            member.awaiting_join = None
        if member.awaiting_sync is not None:
            out.reply(member.awaiting_sync, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
            member.awaiting_sync = None
        group.remove(member.member_id)

    def remove_pending(self, group: ClassicGroup, member_id: str, now_ms: int) -> Output:
        """Remove a member that got an id and has not returned with it."""
        self.timers.cancel(("session", group.group_id, member_id))
        group.remove(member_id)
        if group.state is PREPARING_REBALANCE and group.has_all_members_joined:
            return self.complete_join(group, now_ms)
        return Output()
