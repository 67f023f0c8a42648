"""A flow without Spark between two nodes, as tests drive it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import attrs
import trio

from barnabas.client import KafkaClient, NewRecord, Producer, RecordReader, open_client
from barnabas.client.admin_calls import EARLIEST, LATEST, list_offset
from barnabas.pipeline.delivery.plan.job_plan import OnTrim
from barnabas.pipeline.mirror.flow_connector import FlowSettings, flow_settings
from barnabas.pipeline.mirror.flow_driver import FlowDriver, FlowTopics
from barnabas.pipeline.mirror.flow_values import CopyFigures
from barnabas.pipeline.mirror.range_copies import RangeCopier
from barnabas.pipeline.mirror.range_planning import ranges_to_copy

TOPIC = "numbers"
WANTED = FlowTopics((), TOPIC)


class Served(Protocol):
    """A node or a cluster."""

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers`."""
        ...


@attrs.frozen
class Flow:
    """A driver, and the copies of its ranges in this process."""

    settings: FlowSettings
    source: KafkaClient
    target: KafkaClient
    driver: FlowDriver

    async def turn(self) -> list[CopyFigures]:
        """Follow, and copy what is new."""
        driver = self.driver
        await driver.follow()
        await driver.follow_log_starts()
        await driver.follow_groups()
        await driver.follow_acls()
        await driver.commit_positions(again=False)
        copier = RangeCopier(
            driver.task_plan(transaction_timeout_ms=60_000), self.source, self.target
        )
        ranges = ranges_to_copy(driver.positions, await driver.ends(), driver.epochs)
        done = [await copier.copy(each) for each in ranges]
        for each in done:
            driver.take_in(each)
        return done

    def restarted(self, on_trim: OnTrim = OnTrim.FAIL, wanted: FlowTopics = WANTED) -> "Flow":
        """Return the flow as another process starts it."""
        driver = FlowDriver(self.settings, wanted, on_trim, self.source, self.target)
        return attrs.evolve(self, driver=driver)


def settings_for(
    source: str, target: str, offsets: str, properties: Mapping[str, str] | None = None
) -> FlowSettings:
    return flow_settings(
        {
            "name": "flow",
            "offsets": offsets,
            "source.bootstrap.servers": source,
            "target.bootstrap.servers": target,
            **(properties or {}),
        },
        {},
    )


def with_flow(
    nodes: tuple[Served, Served],
    test: Callable[[Flow], Awaitable[None]],
    offsets: str,
    properties: Mapping[str, str] | None = None,
    deadline_s: float = 120,
) -> None:
    source, target = nodes
    settings = settings_for(source.bootstrap, target.bootstrap, offsets, properties)

    async def main() -> None:
        with trio.fail_after(deadline_s):
            async with (
                open_client(settings.source) as source_client,
                open_client(settings.target) as target_client,
            ):
                flow = Flow(settings, source_client, target_client, None)  # pyright: ignore[reportArgumentType]
                await test(flow.restarted())

    trio.run(main)


async def write(client: KafkaClient, first: int, count: int) -> None:
    """Write numbers, five in a batch."""
    producer = Producer(client)
    for number in range(first, first + count, 5):
        batch = [NewRecord(None, b"%d" % each) for each in range(number, number + 5)]
        await producer.send(TOPIC, 0, batch)


async def numbers(client: KafkaClient) -> list[tuple[int, int]]:
    """Return offset and number of all records."""
    start = await list_offset(client, TOPIC, 0, EARLIEST)
    reader = RecordReader(client, TOPIC, 0, start, read_committed=True)
    end = await list_offset(client, TOPIC, 0, LATEST)
    return [(each.offset, int(each.value or b"")) async for each in reader.until(end)]


def pairs(first: int, end: int) -> list[tuple[int, int]]:
    return [(number, number) for number in range(first, end)]
