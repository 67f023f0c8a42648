"""The parent of a group: what it awaits before the companions, and its stop meanwhile."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from barnabas.config import ConfigError
from barnabas.server.companion.companion_process import CompanionPlan
from barnabas.server.node_failures import StartupError
from barnabas.server.node_group.group_plan import PlannedNode, plan_group
from barnabas.server.node_group.group_process import NodeGroup

_NODE = "print('ready', flush=True); import time; time.sleep(60)"


def group(
    on_ready: Callable[[], Awaitable[None]], companions: list[CompanionPlan] | None = None
) -> NodeGroup:
    """Return a group of one process that says it is ready."""
    plan = plan_group(1, host="127.0.0.1", port=9092, data=Path("/data"), given={}, has_file=False)

    def command(node: PlannedNode, properties: dict[str, str]) -> list[str]:
        return [sys.executable, "-c", _NODE]

    return NodeGroup(plan, command, companions or [], on_ready=on_ready)


def never_started(bootstrap: str) -> list[str]:
    raise AssertionError(bootstrap)


async def stopped(group: NodeGroup, begun: trio.Event) -> list[str]:
    """Run a group and stop it once `begun` is set; return what failed."""
    stopping = trio.Event()
    failures: list[str] = []

    async def run() -> None:
        failures.extend(await group.run(stopping))

    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await begun.wait()
            stopping.set()
    return failures


def test_group_stops_while_it_still_prepares() -> None:
    begun = trio.Event()

    async def forever() -> None:
        begun.set()
        await trio.sleep_forever()

    companion = CompanionPlan("registry", never_started)
    assert trio.run(stopped, group(forever, [companion]), begun) == []


@pytest.mark.parametrize("error", [StartupError("no users"), ConfigError("no users")])
def test_group_whose_preparation_fails_ends_with_the_reason(error: Exception) -> None:
    async def fail() -> None:
        raise error

    async def ended() -> list[str]:
        with trio.fail_after(100):
            return await group(fail, [CompanionPlan("registry", never_started)]).run(trio.Event())

    assert trio.run(ended) == ["no users"]


def test_companions_start_after_the_preparation() -> None:
    order: list[str] = []
    begun = trio.Event()

    async def prepare() -> None:
        await trio.sleep(0.05)
        order.append("prepared")

    def command(bootstrap: str) -> list[str]:
        order.append(bootstrap)
        begun.set()
        return [sys.executable, "-c", _NODE]

    assert trio.run(stopped, group(prepare, [CompanionPlan("registry", command)]), begun) == []
    assert order == ["prepared", "127.0.0.1:9092"]
