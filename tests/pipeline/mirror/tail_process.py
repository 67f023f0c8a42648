"""A flow without Spark as a process, for a test that kills it.

python -m tests.pipeline.mirror.tail_process SOURCE TARGET OFFSETS [KILL_AT]

Takes turns as the job of a flow does: a range first, then tails. Prints a line for each turn. With
KILL_AT the process kills itself at a call of a tail to the target: at 2 n before call n, and at
2 n + 1 when it is answered.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from barnabas.client import KafkaClient, open_client
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.tail_copies import TailCopier, tail_starts
from tests.pipeline.mirror.node_flows import Flow, settings_for

TAILS = 4
"""Calls of one copier, before a range is copied again."""


def plant(client: KafkaClient, kill_at: int) -> None:
    """Kill the process at a call of the client: to a coordinator, or before a Produce request."""
    calls = 0

    def counted(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted_call(*args: Any, **options: Any) -> Any:
            nonlocal calls
            number, calls = calls, calls + 1
            if kill_at == 2 * number:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await call(*args, **options)
            if kill_at == 2 * number + 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return counted_call

    client.ask_coordinator = counted(client.ask_coordinator)  # type: ignore[method-assign]
    client.leader = counted(client.leader)  # type: ignore[method-assign]


async def main(source: str, target: str, offsets: str, kill_at: str = "") -> None:
    settings = settings_for(source, target, offsets)
    async with open_client(settings.source) as first, open_client(settings.target) as second:
        flow = Flow(settings, first, second, None).restarted()  # pyright: ignore[reportArgumentType]
        while True:
            done = await flow.turn()
            print("range", sum(each.records for each in done), flush=True)
            driver = flow.driver
            copier = TailCopier(driver.task_plan(transaction_timeout_ms=60_000), first, second)
            if kill_at:
                plant(second, int(kill_at))
            ended: dict[Partition, str] = {}
            for _ in range(TAILS):
                if ended:
                    break
                starts = tail_starts(driver.positions, driver.epochs)
                ended = await copier.copy(starts, 0.5)
                for each in starts:
                    driver.take_in(each)
                print("tail", sum(each.records for each in starts), ended, flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])  # pyright: ignore[reportArgumentType]
