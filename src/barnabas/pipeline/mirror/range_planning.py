"""The ranges of one Spark job, and how tasks share them: decisions, without input or output."""

import heapq
from collections.abc import Mapping, Sequence

from barnabas.pipeline.mirror.flow_values import FlowRange, Partition


def ranges_to_copy(
    positions: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> list[FlowRange]:
    """Return a range for each partition whose end is beyond the flow's position."""
    return [
        FlowRange(*where, start, ends[where])
        for where, start in sorted(positions.items())
        if ends.get(where, start) > start
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
