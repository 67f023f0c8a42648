"""Copies of one partition by tails and tasks of several processes: each record comes once."""

import random
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio

from barnabas.client import KafkaClient, open_client
from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.mirror.batch_copy import CopiedData, RangeCopy
from barnabas.pipeline.mirror.flow_values import CopyFigures, FlowPlan, FlowRange, Partition
from barnabas.pipeline.mirror.range_copies import RangeCopier
from barnabas.pipeline.mirror.tail_copies import TailCopier
from barnabas.testing import Node
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, with_flow, write

WHERE: Partition = (TOPIC, 0)
SEEDS = 24


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with Node() as source, Node() as target:
        yield source, target


def plan_of(flow: Flow) -> FlowPlan:
    return flow.driver.task_plan(transaction_timeout_ms=60_000)


async def caught_up(flow: Flow) -> FlowPlan:
    """Copy ten records as a range; return the plan of the flow."""
    await create_topic(flow.source, TOPIC)
    await write(flow.source, 0, 10)
    await flow.turn()
    return plan_of(flow)


async def tail_once(copier: TailCopier, position: int) -> tuple[CopyFigures, dict[Partition, str]]:
    """Run a tail until it has copied a response, or has ended."""
    figures = CopyFigures(*WHERE, position)
    ended: dict[Partition, str] = {}
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            nonlocal ended
            ended = await copier.copy([figures], 60.0)
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        while not figures.batches:  # noqa: ASYNC110  (no event tells)
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    return figures, ended


class PausedCopier(RangeCopier):
    """Waits between the begin of its transaction and the first batch."""

    def __init__(self, plan: FlowPlan, source: KafkaClient, target: KafkaClient) -> None:
        super().__init__(plan, source, target)
        self.has_begun = trio.Event()
        self.may_continue = trio.Event()

    async def _run(
        self,
        wanted: FlowRange,
        copy: RangeCopy,
        send: Callable[[CopiedData], Awaitable[None]],
        figures: CopyFigures,
    ) -> None:
        self.has_begun.set()
        await self.may_continue.wait()
        await super()._run(wanted, copy, send, figures)


def test_a_range_fences_a_tail(nodes: tuple[Node, Node]) -> None:
    """The tail of a process that was thought dead continues after a task of the next one."""

    async def test(flow: Flow) -> None:
        plan = await caught_up(flow)
        old = TailCopier(plan, flow.source, flow.target)
        await write(flow.source, 10, 10)
        figures, _ = await tail_once(old, 10)
        assert figures.position == 20
        await write(flow.source, 20, 10)
        [done] = await flow.restarted().turn()
        assert (done.position, done.records) == (30, 10)
        _, ended = await tail_once(old, 20)
        assert ended.keys() == {WHERE}
        assert [number for _, number in await numbers(flow.target)] == list(range(30))

    with_flow(nodes, test, "assigned")


def test_a_tail_fences_a_range(nodes: tuple[Node, Node]) -> None:
    """A task of a process that was thought dead continues after the tail of the next one."""

    async def test(flow: Flow) -> None:
        plan = await caught_up(flow)
        await write(flow.source, 10, 10)
        old = PausedCopier(plan, flow.source, flow.target)
        done: list[CopyFigures] = []

        async def copy_range() -> None:
            done.append(await old.copy(FlowRange(*WHERE, 10, 20)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(copy_range)
            await old.has_begun.wait()
            figures, ended = await tail_once(TailCopier(plan, flow.source, flow.target), 10)
            assert (figures.position, ended) == (20, {})
            old.may_continue.set()
        assert (done[0].position, done[0].records, done[0].attempts) == (20, 0, 2)
        assert [number for _, number in await numbers(flow.target)] == list(range(20))

    with_flow(nodes, test, "assigned")


def test_a_tail_fences_a_tail(nodes: tuple[Node, Node]) -> None:
    async def test(flow: Flow) -> None:
        plan = await caught_up(flow)
        old, new = (TailCopier(plan, flow.source, flow.target) for _ in range(2))
        await write(flow.source, 10, 10)
        await tail_once(old, 10)
        await write(flow.source, 20, 10)
        figures, _ = await tail_once(new, 20)
        assert figures.position == 30
        _, ended = await tail_once(old, 20)
        assert ended.keys() == {WHERE}
        assert [number for _, number in await numbers(flow.target)] == list(range(30))

    with_flow(nodes, test, "assigned")


class Turns:
    """Lets one of several copies take a step at a time: a request to the target."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._waiting: dict[int, trio.Event] = {}
        self._running: set[int] = set()
        self._changed = trio.Event()

    async def step(self, copy: int) -> None:
        """Return when it is the turn of a copy."""
        event = self._waiting[copy] = trio.Event()
        self._running.discard(copy)
        self._changed.set()
        await event.wait()

    async def run(self, copies: list[Callable[[], Awaitable[object]]]) -> None:
        """Run copies to their ends, in an order of steps that the seed decides."""
        left = set(range(len(copies)))
        self._running = set(left)

        async def one(number: int) -> None:
            await copies[number]()
            left.discard(number)
            self._running.discard(number)
            self._changed.set()

        async with trio.open_nursery() as nursery:
            for number in range(len(copies)):
                nursery.start_soon(one, number)
            while left:
                while self._running:
                    await self._changed.wait()
                    self._changed = trio.Event()
                if self._waiting:
                    chosen = self._random.choice(sorted(self._waiting))
                    self._running.add(chosen)
                    self._waiting.pop(chosen).set()


def gated(client: KafkaClient, turns: Turns, copy: int) -> KafkaClient:
    """Have each request of a client that matters to transactions wait for its turn."""
    ask, leader = KafkaClient.ask_coordinator, KafkaClient.leader

    async def ask_in_turn(*args: object, **options: object) -> object:
        await turns.step(copy)
        return await ask(client, *args, **options)  # pyright: ignore

    async def leader_in_turn(*args: object) -> object:
        await turns.step(copy)
        return await leader(client, *args)  # pyright: ignore

    client.ask_coordinator = ask_in_turn  # pyright: ignore
    client.leader = leader_in_turn  # pyright: ignore
    return client


@pytest.mark.parametrize("seeds", [range(0, SEEDS, 2), range(1, SEEDS, 2)], ids=["even", "odd"])
def test_copies_that_race_copy_each_record_once(nodes: tuple[Node, Node], seeds: range) -> None:
    """A tail that copies already, a task and a new tail, of three processes, copy one range."""

    async def test(flow: Flow) -> None:
        plan = await caught_up(flow)
        count = 10
        for seed in seeds:
            async with (
                open_client(flow.settings.target) as old_target,
                open_client(flow.settings.target) as task_target,
                open_client(flow.settings.target) as new_target,
            ):
                old = TailCopier(plan, flow.source, old_target)
                await write(flow.source, count, 5)
                await tail_once(old, count)
                count += 5
                await write(flow.source, count, 10)
                task = RangeCopier(plan, flow.source, task_target)
                new = TailCopier(plan, flow.source, new_target)
                wanted = FlowRange(*WHERE, count, count + 10)
                turns = Turns(seed)
                for number, client in enumerate((old_target, task_target, new_target)):
                    gated(client, turns, number)
                await turns.run(
                    [
                        lambda: tail_once(old, count),  # noqa: B023
                        lambda: task.copy(wanted),  # noqa: B023
                        lambda: tail_once(new, count),  # noqa: B023
                    ]
                )
                count += 10
            await flow.restarted().turn()
            found = [number for _, number in await numbers(flow.target)]
            assert found == list(range(count)), f"seed {seed}"

    with_flow(nodes, test, "assigned", deadline_s=300)
