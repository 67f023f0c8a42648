"""The first offsets of a query that starts at the ends of its topics, as its statement found them.

They are noted when the statement runs. So a query reads what comes after the answer, also when its
job starts later, or starts again before a partition had a record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.pipeline.delivery.plan.start_positions import EARLIEST, FirstOffsets

if TYPE_CHECKING:
    from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
    from barnabas.pipeline.sql.analysis.plan_values import QueryPlan

Start = str | FirstOffsets
"""Where a query reads a stream without a committed offset: `earliest`, `latest`, or offsets."""


def topic_ends(cluster: ClusterState, plan: QueryPlan) -> FirstOffsets:
    """Return the ends of the topics of a plan's streams; tables are read from the start.

    Raises KafkaException.
    """
    names = {each.source.topic for each in plan.relations if not each.source.is_table}
    found: dict[str, dict[int, int]] = {name: {} for name in sorted(names)}
    pairs = _partitions(cluster, names)
    if pairs:
        for (name, number), end in cluster.ends(pairs).items():
            found[name][number] = end
    return found


def usable(cluster: ClusterState, offsets: FirstOffsets) -> FirstOffsets:
    """Return offsets for all partitions that the topics have now. Raises KafkaException.

    A partition that was added is read from its start, as is one whose topic was created again or
    whose records up to the offset were deleted.
    """
    found: dict[str, dict[int, int]] = {name: {} for name in offsets}
    pairs = _partitions(cluster, offsets)
    if not pairs:
        return found
    starts, ends = cluster.log_starts(pairs), cluster.ends(pairs)
    for name, number in pairs:
        noted = offsets[name].get(number, EARLIEST)
        is_there = starts[name, number] <= noted <= ends[name, number]
        found[name][number] = noted if is_there else EARLIEST
    return found


def _partitions(cluster: ClusterState, names: Iterable[str]) -> list[tuple[str, int]]:
    """Return the partitions of the topics that exist."""
    topics = cluster.topics(sorted(names)).items()
    return [
        (name, number)
        for name, topic in topics
        if topic is not None
        for number in range(topic.partitions)
    ]


def encoded(offsets: FirstOffsets) -> str:
    """Return offsets as a property of a job."""
    return json.dumps(offsets, separators=(",", ":"))
