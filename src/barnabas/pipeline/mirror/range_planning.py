"""The ranges of one Spark job, and how tasks share them: decisions, without input or output."""

import heapq
from collections.abc import Mapping, Sequence

from barnabas.pipeline.mirror.flow_values import NO_EPOCH, FlowRange, Partition


def ranges_to_copy(
    positions: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    epochs: Mapping[Partition, int],
    *,
    keeps: bool = False,
) -> list[FlowRange]:
    """Return a range for each partition whose end is beyond the flow's position.

    `epochs` are the leader epochs of the batches before the positions, where they are known. With
    `keeps` the others have empty ranges: their positions are committed again.
    """
    return [
        FlowRange(*where, start, max(start, ends.get(where, start)), epochs.get(where, NO_EPOCH))
        for where, start in sorted(positions.items())
        if keeps or ends.get(where, start) > start
    ]


def divided(ranges: Sequence[FlowRange], tasks_max: int) -> list[list[FlowRange]]:
    """Return the ranges of each task: the largest first, each to the task with the least to do."""
    count = max(1, min(tasks_max, len(ranges)))
    tasks: list[list[FlowRange]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for each in sorted(ranges, key=lambda each: each.start - each.until):
        load, number = heapq.heappop(loads)
        tasks[number].append(each)
        heapq.heappush(loads, (load + each.until - each.start, number))
    return [task for task in tasks if task]
