"""The copy of what arrives at the ends of logs, between two nodes."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio

from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsets
from barnabas.pipeline.mirror.flow_values import NO_EPOCH, CopyFigures, Partition
from barnabas.pipeline.mirror.tail_copies import TailCopier, tail_starts
from barnabas.testing import Node
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, with_flow, write

WHERE = (TOPIC, 0)


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with Node() as source, Node() as target:
        yield source, target


async def caught_up(flow: Flow) -> CopyFigures:
    """Copy ten records as a range; return the figures of the tail behind them."""
    await create_topic(flow.source, TOPIC)
    await write(flow.source, 0, 10)
    await flow.turn()
    [figures] = tail_starts(flow.driver.positions, flow.driver.epochs)
    return figures


async def until_numbers(flow: Flow, count: int) -> None:
    """Return when the target has as many records."""
    with trio.fail_after(100):
        while len(await numbers(flow.target)) < count:  # noqa: ASYNC110  (no event tells)
            await trio.sleep(0.01)


@asynccontextmanager
async def tail(flow: Flow, figures: CopyFigures) -> AsyncIterator[dict[Partition, str]]:
    """Run a tail while the block runs, to the end of a second after its last record."""
    plan = flow.driver.task_plan(transaction_timeout_ms=60_000)
    copier = TailCopier(plan, flow.source, flow.target)
    ended: dict[Partition, str] = {}

    async def run() -> None:
        nonlocal ended
        ended |= await copier.copy([figures], 3.0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield ended


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_records_that_arrive_are_copied_once_and_the_next_range_continues(nodes, offsets) -> None:
    async def test(flow: Flow) -> None:
        figures = await caught_up(flow)
        async with tail(flow, figures) as ended:
            for first in (10, 20, 30):
                await write(flow.source, first, 10)
                await until_numbers(flow, first + 10)
        assert not ended
        assert (figures.position, figures.records) == (40, 30)
        assert offsets == "identical" or figures.transactions >= 3
        flow.driver.take_in(figures)
        await write(flow.source, 40, 10)
        [done] = await flow.turn()
        assert (done.position, done.records, done.skipped) == (50, 10, 0)
        assert [number for _, number in await numbers(flow.target)] == list(range(50))
        if offsets == "assigned":
            committed = await GroupOffsets(flow.target).committed(flow.settings.group_id)
            assert committed[WHERE] == 50

    with_flow(nodes, test, offsets)


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_records_whose_figures_are_lost_are_not_copied_again(nodes, offsets) -> None:
    """The process ends behind its last record, and another one starts the flow."""

    async def test(flow: Flow) -> None:
        figures = await caught_up(flow)
        async with tail(flow, figures):
            await write(flow.source, 10, 10)
            await until_numbers(flow, 20)
        await write(flow.source, 20, 10)
        await flow.restarted().turn()
        assert [number for _, number in await numbers(flow.target)] == list(range(30))

    with_flow(nodes, test, offsets)


def test_a_position_behind_that_of_the_target_ends_the_tail(nodes) -> None:
    """Another process of the flow has copied more."""

    async def test(flow: Flow) -> None:
        behind = await caught_up(flow)
        await write(flow.source, 10, 10)
        await flow.restarted().turn()
        async with tail(flow, behind) as ended:
            await write(flow.source, 20, 5)
        assert ended == {WHERE: "the target has position 20"}
        assert (behind.position, behind.records) == (10, 0)
        assert [number for _, number in await numbers(flow.target)] == list(range(20))

    with_flow(nodes, test, "assigned")


def test_a_tail_with_identical_offsets_repeats_no_batch(nodes) -> None:
    """The target answers batches that it has as done."""

    async def test(flow: Flow) -> None:
        behind = await caught_up(flow)
        await write(flow.source, 10, 10)
        await flow.restarted().turn()
        async with tail(flow, behind):
            await write(flow.source, 20, 5)
            await until_numbers(flow, 25)
        assert [number for _, number in await numbers(flow.target)] == list(range(25))

    with_flow(nodes, test, "identical")


def test_a_leader_epoch_that_is_not_committed_ends_the_tail(nodes) -> None:
    async def test(flow: Flow) -> None:
        figures = await caught_up(flow)
        figures.leader_epoch = NO_EPOCH
        async with tail(flow, figures) as ended:
            await write(flow.source, 10, 5)
        assert ended == {WHERE: "leader epoch 0 begins"}
        assert figures.position == 10
        [done] = await flow.turn()
        assert (done.position, done.records) == (15, 5)

    with_flow(nodes, test, "identical")


def test_a_log_that_lost_what_was_copied_ends_the_tail(nodes) -> None:
    async def test(flow: Flow) -> None:
        figures = await caught_up(flow)
        figures.position = 99
        async with tail(flow, figures) as ended:
            pass
        assert ended == {WHERE: f"OFFSET_OUT_OF_RANGE: {TOPIC}-0 has diverged"}

    with_flow(nodes, test, "identical")


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_a_source_that_goes_away_ends_the_tail(nodes, offsets) -> None:
    source, _ = nodes

    async def test(flow: Flow) -> None:
        figures = await caught_up(flow)
        async with tail(flow, figures) as ended:
            await trio.to_thread.run_sync(source.kill)
        assert WHERE in ended
        assert figures.position == 10

    with_flow(nodes, test, offsets)
