"""Neighbouring partitions to one member, the same numbers of every topic to the same member.

So topics with as many partitions can be joined by number. Kafka: RangeAssignor.
"""

from collections.abc import Mapping

from barnabas.coordinator.consumer.assignors.base import GroupSpec, MemberSpec
from barnabas.coordinator.consumer.member import Assignment
from barnabas.protocol.types import Uuid


class RangeAssignor:
    """Splits each topic's partitions into one range for each member, in the order of members."""

    name = "range"

    def assign(self, group: GroupSpec) -> Mapping[str, Assignment]:
        """Static members come first, by instance id, so that a restart changes nothing."""
        members = sorted(group.members.values(), key=_order)
        consumers: dict[Uuid, list[str]] = {}
        for member in members:
            for topic_id in member.topic_ids:
                consumers.setdefault(topic_id, []).append(member.member_id)
        assignments: dict[str, dict[Uuid, frozenset[int]]] = {id_: {} for id_ in group.members}
        for topic_id, member_ids in sorted(consumers.items()):
            share, extra = divmod(group.partitions[topic_id], len(member_ids))
            start = 0
            for place, member_id in enumerate(member_ids):
                end = start + share + (place < extra)
                if end > start:
                    assignments[member_id][topic_id] = frozenset(range(start, end))
                start = end
        return assignments


def _order(member: MemberSpec) -> tuple[bool, str]:
    if member.instance_id is not None:
        return False, member.instance_id
    return True, member.member_id
