"""A flow without Spark as a process, for a test that kills it.

python -m tests.pipeline.mirror.tail_process SOURCE TARGET OFFSETS

Takes turns as the job of a flow does: a range first, then tails. Prints a line for each turn.
"""

import sys

import trio

from barnabas.client import open_client
from barnabas.pipeline.mirror.tail_copies import TailCopier, tail_starts
from tests.pipeline.mirror.node_flows import Flow, settings_for


async def main(source: str, target: str, offsets: str) -> None:
    settings = settings_for(source, target, offsets)
    async with open_client(settings.source) as first, open_client(settings.target) as second:
        flow = Flow(settings, first, second, None).restarted()  # pyright: ignore[reportArgumentType]
        while True:
            done = await flow.turn()
            print("range", sum(each.records for each in done), flush=True)
            driver = flow.driver
            starts = tail_starts(driver.positions, driver.epochs)
            copier = TailCopier(driver.task_plan(transaction_timeout_ms=60_000), first, second)
            ended = await copier.copy(starts, 1.0)
            for each in starts:
                driver.take_in(each)
            print("tail", sum(each.records for each in starts), ended, flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
