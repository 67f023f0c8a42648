"""The code of Spark's tasks: a task copies its ranges at the same time, on shared connections."""

from collections.abc import Iterator, Sequence
from typing import Final

import trio

from barnabas.client import open_client
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.mirror.flow_values import CopyFigures, FlowPlan, FlowRange
from barnabas.pipeline.mirror.range_copies import RangeCopier

_AT_A_TIME: Final = 8
"""Ranges that a task copies at the same time: each has responses in memory."""


def copy_ranges(
    plan: FlowPlan, tasks: Sequence[Sequence[FlowRange]], indexes: Iterator[int]
) -> Iterator[CopyFigures]:
    """Copy the ranges of each task; yield what was done for each range."""
    for index in indexes:
        yield from trio.run(_copy_all, plan, tasks[index])


async def _copy_all(plan: FlowPlan, ranges: Sequence[FlowRange]) -> list[CopyFigures]:
    """Copy ranges. Raises TaskFailureError, the first one after all copies have ended."""
    done: list[CopyFigures] = []
    failures: list[TaskFailureError] = []
    limit = trio.CapacityLimiter(_AT_A_TIME)
    async with open_client(plan.source) as source, open_client(plan.target) as target:
        copier = RangeCopier(plan, source, target)

        async def copy(wanted: FlowRange) -> None:
            async with limit:
                try:
                    done.append(await copier.copy(wanted))
                except TaskFailureError as error:
                    failures.append(error)

        async with trio.open_nursery() as nursery:
            for wanted in ranges:
                nursery.start_soon(copy, wanted)
    if failures:
        raise failures[0]
    return done
