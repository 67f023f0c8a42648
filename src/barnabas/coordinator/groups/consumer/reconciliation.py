"""The next step of one member towards its target: give up first, then be given.

| state | waits for | then |
| --- | --- | --- |
| Stable | a newer target | gives up what is not in it, or is given what is free |
| Unrevoked | the member's word that it has given up `revoking` | as above |
| Unreleased | others to give up what it shall have | is given what is free by now |

A member keeps its epoch until it has given up all that it must: so an old epoch at the
coordinator tells that it may still hold old partitions. Kafka: CurrentAssignmentBuilder.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from barnabas.coordinator.core.steps import Pace, Steps
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

# What a heartbeat says that its member holds; None: as it said before.
Claimed = Sequence[Any] | None


@attrs.frozen
class Reconciliation:
    """What one step needs to know beside the member.

    `holders` gives those partitions of a topic that some member has, as its keys; `subscribed` are
    the topics that the member subscribes to.
    """

    target_epoch: int
    target: Assignment
    subscribed: frozenset[Uuid]
    subscription_changed: bool
    claimed: Claimed
    holders: Callable[[Uuid], Mapping[int, int]]

    def step(self, member: ConsumerMember) -> Steps[ConsumerMember]:
        """The member after this step; itself if there is none to take.

        Raises FENCED_MEMBER_EPOCH for a member in a state that this version does not know.
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
        """Takes back topics that the member has just unsubscribed from; its target comes later."""
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
        """Gives up, at the present epoch, or is given, at the target's."""
        kept: dict[Uuid, Mapping[int, int]] = {}
        revoking: dict[Uuid, dict[int, int]] = {}
        given: dict[Uuid, list[int]] = {}
        waits = False
        pace = Pace()
        for topic_ids in pace.chunks(dict.fromkeys((*self.target, *member.assigned))):
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
            if pace.is_due(len(topic_ids)):
                yield
        if revoking and is_held(self.claimed, revoking):
            return _moved(member, epoch_meanwhile, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
        for some in pace.chunks(given.items()):
            for topic_id, partitions in some:
                epochs = dict.fromkeys(partitions, self.target_epoch)
                kept[topic_id] = {**kept[topic_id], **epochs} if topic_id in kept else epochs
            if pace.is_due(len(some)):
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
    """Whether a member may still hold some of what is owned: it says so, or says nothing."""
    return claimed is None or _overlap(claimed, owned, any)


def is_subset(claimed: Claimed, owned: Owned) -> bool:
    """Whether a member says what it holds, and it is nothing but what is owned."""
    return claimed is not None and _overlap(claimed, owned, all)


def _overlap(claimed: Sequence[Any], owned: Owned, how: Callable[[Any], bool]) -> bool:
    return how(
        partition in owned.get(topic.topic_id, NO_PARTITIONS)
        for topic in claimed
        for partition in topic.partitions
    )
