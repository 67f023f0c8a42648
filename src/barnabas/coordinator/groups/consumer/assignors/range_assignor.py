"""Ranges: neighbouring partitions to one member, the same numbers of every topic to the same
member.

Topics with the same number of partitions can therefore be joined by number. Kafka: RangeAssignor.
"""

from collections.abc import Sequence

from barnabas.coordinator.core.steps import SliceBudget, Steps
from barnabas.coordinator.groups.consumer.assignors.assignor import (
    Assignments,
    GroupSpec,
    MemberSpec,
)
from barnabas.protocol.types import Uuid


class RangeAssignor:
    """Splits each topic's partitions into one range for each member, in the order of members."""

    name = "range"

    def assign(self, group: GroupSpec) -> Steps[Assignments]:
        """Assign ranges; static members come first, by instance id, so restarts change nothing."""
        if not group.members:
            return {}
        members = sorted(group.members.values(), key=_order)
        assignments: dict[str, dict[Uuid, frozenset[int]]] = {id_: {} for id_ in group.members}
        consumers = yield from _consumers(members)
        budget, ranges = SliceBudget(), min(group.partitions_max, len(members))
        for some in budget.chunks(sorted(consumers), weight=ranges):
            for topic_id in some:
                member_ids = consumers[topic_id]
                count = group.partitions[topic_id]
                share, extra = divmod(count, len(member_ids))
                start = 0
                for place, member_id in enumerate(member_ids):
                    if start == count:
                        break
                    end = start + share + (place < extra)
                    assignments[member_id][topic_id] = frozenset(range(start, end))
                    start = end
            if budget.is_due(len(some) * ranges):
                yield
        return assignments


def _consumers(members: Sequence[MemberSpec]) -> Steps[dict[Uuid, Sequence[str]]]:
    """Return the members by topic; topics that all members consume share one list."""
    common = members[0].topic_ids.intersection(*{member.topic_ids for member in members})
    everybody = [member.member_id for member in members]
    consumers: dict[Uuid, list[str]] = dict.fromkeys(common, everybody)
    budget = SliceBudget()
    for member in members:
        for some in budget.chunks(member.topic_ids - common):
            for topic_id in some:
                consumers.setdefault(topic_id, []).append(member.member_id)
            if budget.is_due(len(some)):
                yield
    return dict(consumers)


def _order(member: MemberSpec) -> tuple[bool, str]:
    if member.instance_id is not None:
        return False, member.instance_id
    return True, member.member_id
