"""The interface of assignors: a group's specification in, an assignment out.

Kafka: the PartitionAssignor interface of group-coordinator-api.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Protocol, TypeAlias

import attrs

from barnabas.coordinator.core.steps import SliceBudget, Steps
from barnabas.coordinator.groups.consumer.consumer_member import NO_ASSIGNMENT, Assignment
from barnabas.protocol.types import Uuid


class AssignorError(Exception):
    """An assignor failed, or returned an invalid assignment."""


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

    `partitions` has the number of partitions of each subscribed topic; `racks` returns the racks of
    a partition's replicas.
    """

    members: Mapping[str, MemberSpec]
    partitions: Mapping[Uuid, int]
    racks: Callable[[Uuid, int], Sequence[str]]

    @property
    def partitions_max(self) -> int:
        """Return the largest number of partitions that a topic has."""
        return max(self.partitions.values(), default=0)

    @cached_property
    def owners(self) -> Mapping[Uuid, Mapping[int, str]]:
        """Return the owner of each partition in the last target, by topic id and number."""
        owners: dict[Uuid, dict[int, str]] = {}
        for member in self.members.values():
            for topic_id, partitions in member.target.items():
                owned = dict.fromkeys(partitions, member.member_id)
                owners.setdefault(topic_id, {}).update(owned)
        return owners

    @property
    def is_homogeneous(self) -> bool:
        """True when all members consume the same topics."""
        return len({member.topic_ids for member in self.members.values()}) <= 1


Assignments: TypeAlias = Mapping[str, Assignment]
"""Partitions by topic id for each member; a missing member gets nothing."""


class Assignor(Protocol):
    """Decides which partitions each member gets."""

    @property
    def name(self) -> str:
        """The name that members use for it."""
        ...

    def assign(self, group: GroupSpec) -> Assignments | Steps[Assignments]:
        """Return the assignments; a generator of them when it may take long.

        Raises AssignorError when there is no answer.
        """
        ...


def assigned(assignor: Assignor, group: GroupSpec) -> Steps[dict[str, Assignment]]:
    """Return an assignment for every member; AssignorError for partitions that do not exist."""
    given = assignor.assign(group)
    if not isinstance(given, Mapping):
        given = yield from given
    assignments: dict[str, Assignment] = {}
    budget = SliceBudget()
    for member_id in group.members:
        assignment: dict[Uuid, frozenset[int]] = {}
        for some in budget.chunks(given.get(member_id, NO_ASSIGNMENT).items()):
            for topic_id, partitions in some:
                if not partitions:
                    continue
                count = group.partitions.get(topic_id, 0)
                if max(partitions) >= count or min(partitions) < 0:
                    raise AssignorError(
                        f"{member_id} was given partitions of {topic_id}, which has {count}: "
                        f"{sorted(partitions)}"
                    )
                assignment[topic_id] = frozenset(partitions)
            if budget.is_due(len(some)):
                yield
        assignments[member_id] = assignment
    return assignments


_BUILT_IN = {
    "uniform": "barnabas.coordinator.groups.consumer.assignors.uniform_assignor:UniformAssignor",
    "range": "barnabas.coordinator.groups.consumer.assignors.range_assignor:RangeAssignor",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": (
        "barnabas.coordinator.groups.consumer.assignors.uniform_assignor:UniformAssignor"
    ),
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": (
        "barnabas.coordinator.groups.consumer.assignors.range_assignor:RangeAssignor"
    ),
}


def load_assignors(names: Sequence[str]) -> dict[str, Assignor]:
    """Return the assignors of `group.consumer.assignors` by name, the default first.

    A name is `uniform`, `range`, one of their Java classes, or `module:Class` of another assignor.
    Raises ValueError with the reason when one cannot be loaded.
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
