"""What an assignor is given and gives back.

Kafka: the PartitionAssignor interface of group-coordinator-api.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Protocol

import attrs

from barnabas.coordinator.consumer.member import Assignment
from barnabas.protocol.types import Uuid


class AssignorError(Exception):
    """An assignor could not do its work, or what it gave is no assignment."""


@attrs.frozen(slots=True)
class MemberSpec:
    """A member as an assignor sees it: `topic_ids` that it consumes, and its last `target`."""

    member_id: str
    topic_ids: frozenset[Uuid]
    target: Assignment
    instance_id: str | None = None
    rack_id: str | None = None


@attrs.frozen
class GroupSpec:
    """A group as an assignor sees it.

    `owners` says who had each partition in the last target, by topic id and number. `partitions`
    gives the number of partitions of each topic that somebody consumes; `racks` the racks of a
    partition's replicas.
    """

    members: Mapping[str, MemberSpec]
    owners: Mapping[Uuid, Mapping[int, str]]
    partitions: Mapping[Uuid, int]
    racks: Callable[[Uuid, int], Sequence[str]]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members consume the same topics."""
        return len({member.topic_ids for member in self.members.values()}) <= 1


class Assignor(Protocol):
    """Gives each member the partitions that it shall have."""

    @property
    def name(self) -> str:
        """By which members may ask for it."""
        ...

    def assign(self, group: GroupSpec) -> Mapping[str, Assignment]:
        """Partitions by topic id for each member; a member left out gets nothing.

        Raises AssignorError when there is no answer.
        """
        ...


def checked(group: GroupSpec, given: Mapping[str, Assignment]) -> dict[str, Assignment]:
    """An assignment for every member of the group; AssignorError for partitions not there."""
    assignments: dict[str, Assignment] = {}
    for member_id in group.members:
        assignment = given.get(member_id, {})
        for topic_id, partitions in assignment.items():
            count = group.partitions.get(topic_id, 0)
            if partitions and (min(partitions) < 0 or max(partitions) >= count):
                raise AssignorError(
                    f"{member_id} was given partitions of {topic_id}, which has {count}: "
                    f"{sorted(partitions)}"
                )
        assignments[member_id] = {
            topic_id: frozenset(partitions)
            for topic_id, partitions in assignment.items()
            if partitions
        }
    return assignments


_BUILT_IN = {
    "uniform": "barnabas.coordinator.consumer.assignors.uniform:UniformAssignor",
    "range": "barnabas.coordinator.consumer.assignors.range:RangeAssignor",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": (
        "barnabas.coordinator.consumer.assignors.uniform:UniformAssignor"
    ),
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": (
        "barnabas.coordinator.consumer.assignors.range:RangeAssignor"
    ),
}


def load_assignors(names: Sequence[str]) -> dict[str, Assignor]:
    """The assignors of `group.consumer.assignors` by name, the default first.

    A name is `uniform`, `range`, one of their Java classes, or `module:Class` of an assignor of
    one's own. ValueError says what is wrong with it.
    """
    assignors: dict[str, Assignor] = {}
    for name in names:
        path = _BUILT_IN.get(name, name)
        module_name, _, class_name = path.partition(":")
        try:
            assignor: Assignor = getattr(import_module(module_name), class_name)()
            own_name = assignor.name
        except Exception as error:
            raise ValueError(
                f"group.consumer.assignors: {name} is neither uniform, range nor the "
                f"module:Class of an assignor ({error})"
            ) from error
        if own_name in assignors:
            raise ValueError(f"group.consumer.assignors: two assignors are named {own_name}")
        assignors[own_name] = assignor
    if not assignors:
        raise ValueError("group.consumer.assignors: at least one assignor is needed")
    return assignors
