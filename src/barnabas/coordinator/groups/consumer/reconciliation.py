"""The next step of one member towards its target: first revoke, then assign.

| state | waits for | then |
| --- | --- | --- |
| Stable | a newer target | revokes what is not in it, or gets what is free |
| Unrevoked | the member's confirmation that it revoked `revoking` | as above |
| Unreleased | other members to release its target | gets what is free by now |

A member keeps its epoch until it has revoked all that it must. An old epoch at the coordinator
therefore means that the member may still hold old partitions. Kafka: CurrentAssignmentBuilder.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from barnabas.coordinator.core.steps import SliceBudget, Steps
from barnabas.coordinator.groups.consumer.consumer_member import (
    NO_PARTITIONS,
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
    Owned,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

# The partitions that a heartbeat claims; None: the same as before.
Claimed = Sequence[Any] | None


@attrs.frozen
class Reconciliation:
    """The input of one step, in addition to the member.

    `holders` returns the assigned partitions of a topic, as its keys; `subscribed` are the topics
    that the member subscribes to.
    """

    target_epoch: int
    target: Assignment
    subscribed: frozenset[Uuid]
    subscription_changed: bool
    claimed: Claimed
    holders: Callable[[Uuid], Mapping[int, int]]

    def step(self, member: ConsumerMember) -> Steps[ConsumerMember]:
        """Return the member after this step; itself when there is no step.

        Raises FENCED_MEMBER_EPOCH for a member in a state that this version does not support.
        """
        if member.state is MemberState.STABLE:
            if member.member_epoch != self.target_epoch:
                return (yield from self._advance(member, member.member_epoch))
            return self._drop_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            if not is_held(self.claimed, member.revoking):
                return (yield from self._advance(member, member.member_epoch))
            return self._drop_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return (yield from self._advance(member, member.member_epoch))
        if self.claimed is None or self.claimed:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all "
                "its partitions and rejoin.",
            )
        return (yield from self._advance(member, self.target_epoch))

    def _drop_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Revoke topics that the member has just unsubscribed from; its target follows later."""
        kept: dict[Uuid, Any] = {}
        revoking: dict[Uuid, dict[int, int]] = {t: dict(p) for t, p in member.revoking.items()}
        for topic_id, partitions in member.assigned.items():
            if topic_id in self.subscribed:
                kept[topic_id] = partitions
            else:
                revoking.setdefault(topic_id, {}).update(partitions)
        if len(kept) == len(member.assigned):
            return member
        if is_held(self.claimed, revoking):
            return _moved(
                member, member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking
            )
        return _moved(member, member.member_epoch, member.state, kept, member.revoking)

    def _advance(self, member: ConsumerMember, epoch_meanwhile: int) -> Steps[ConsumerMember]:
        """Revoke at the present epoch, or assign at the target's."""
        kept: dict[Uuid, Mapping[int, int]] = {}
        revoking: dict[Uuid, dict[int, int]] = {}
        given: dict[Uuid, list[int]] = {}
        waits = False
        budget = SliceBudget()
        for topic_ids in budget.chunks(dict.fromkeys((*self.target, *member.assigned))):
            for topic_id in topic_ids:
                wanted: frozenset[int] = frozenset()
                if topic_id in self.subscribed:
                    wanted = self.target.get(topic_id, wanted)
                owned = member.assigned.get(topic_id, NO_PARTITIONS)
                if len(owned) == len(wanted) and owned.keys() <= wanted:
                    if owned:
                        kept[topic_id] = owned
                    continue
                if keeps := {p: epoch for p, epoch in owned.items() if p in wanted}:
                    kept[topic_id] = keeps
                if len(keeps) < len(owned):
                    revoking[topic_id] = {p: e for p, e in owned.items() if p not in wanted}
                missing = sorted(wanted - keeps.keys())
                free = [p for p in missing if self._is_free(member, topic_id, p)]
                waits = waits or len(free) < len(missing)
                if free:
                    given[topic_id] = free
            if budget.is_due(len(topic_ids)):
                yield
        if revoking and is_held(self.claimed, revoking):
            return _moved(member, epoch_meanwhile, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
        for some in budget.chunks(given.items()):
            for topic_id, partitions in some:
                epochs = dict.fromkeys(partitions, self.target_epoch)
                kept[topic_id] = {**kept[topic_id], **epochs} if topic_id in kept else epochs
            if budget.is_due(len(some)):
                yield
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return _moved(member, self.target_epoch, state, kept, NOTHING)

    def _is_free(self, member: ConsumerMember, topic_id: Uuid, partition: int) -> bool:
        return partition not in self.holders(topic_id) or partition in member.revoking.get(
            topic_id, NO_PARTITIONS
        )


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Owned, revoking: Owned
) -> ConsumerMember:
    return attrs.evolve(
        member,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )


def is_held(claimed: Claimed, owned: Owned) -> bool:
    """True when a member may still hold some of `owned`: it claims so, or claims nothing."""
    return claimed is None or _overlap(claimed, owned, any)


def is_subset(claimed: Claimed, owned: Owned) -> bool:
    """True when a member claims partitions, and all of them are in `owned`."""
    return claimed is not None and _overlap(claimed, owned, all)


def _overlap(claimed: Sequence[Any], owned: Owned, how: Callable[[Any], bool]) -> bool:
    return how(
        partition in owned.get(topic.topic_id, NO_PARTITIONS)
        for topic in claimed
        for partition in topic.partitions
    )
