"""Plans of reassignments: which replicas each partition gets. Pure."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class PlanError(ValueError):
    """The plan is impossible or unreadable; the message is one line."""


class Place(NamedTuple):
    """A partition, in the order of topics and numbers."""

    topic: str
    partition: int


Replicas = dict[Place, list[int]]
"""The replicas of each partition, the preferred leader first."""


def spread(
    current: Mapping[Place, Sequence[int]], brokers: Sequence[int], count: int | None = None
) -> Replicas:
    """Return a plan that spreads partitions over these brokers only, leaders in turn.

    A partition gets `count` replicas, or keeps its number of them. Raises PlanError when there are
    too few brokers.
    """
    plan: Replicas = {}
    for number, (place, replicas) in enumerate(sorted(current.items())):
        wanted = len(replicas) if count is None else count
        if wanted > len(brokers):
            raise PlanError(
                f"{place.topic}-{place.partition} has {wanted} replicas, more than the "
                f"{len(brokers)} brokers given"
            )
        plan[place] = [brokers[(number + index) % len(brokers)] for index in range(wanted)]
    return plan


def drain(current: Mapping[Place, Sequence[int]], broker: int, others: Iterable[int]) -> Replicas:
    """Return a plan that moves every replica off a broker, each to the one with fewest replicas.

    Raises PlanError when a partition has a replica on every other broker already.
    """
    load = Counter({other: 0 for other in others if other != broker})
    for replicas in current.values():
        load.update(each for each in replicas if each in load)
    plan: Replicas = {}
    for place, replicas in sorted(current.items()):
        if broker not in replicas:
            continue
        free = [other for other in load if other not in replicas]
        if not free:
            raise PlanError(
                f"{place.topic}-{place.partition} has a replica on every other broker: "
                "add a broker, or lower its number of replicas"
            )
        target = min(free, key=lambda other: (load[other], other))
        load[target] += 1
        plan[place] = [target if each == broker else each for each in replicas]
    return plan


def from_json(text: str | bytes) -> Replicas:
    """Return the plan of a file as kafka-reassign-partitions reads it. Raises PlanError."""
    try:
        document: Any = json.loads(text)
        return {
            Place(str(each["topic"]), int(each["partition"])): [int(x) for x in each["replicas"]]
            for each in document["partitions"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise PlanError(
            'the plan is not {"version": 1, "partitions": [{"topic": ..., "partition": ..., '
            f'"replicas": [...]}}]}}: {error}'
        ) from None


def changes(current: Mapping[Place, Sequence[int]], plan: Replicas) -> Replicas:
    """Return the part of a plan that differs from the current replicas.

    Raises PlanError for an unknown partition.
    """
    for place in plan:
        if place not in current:
            raise PlanError(f"{place.topic}-{place.partition} does not exist")
    return {place: new for place, new in plan.items() if list(current[place]) != new}
