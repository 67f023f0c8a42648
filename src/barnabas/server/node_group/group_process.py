"""The parent process of several nodes: it starts, watches, restarts and stops them.

A node that ends is restarted after a delay. A node that never became ready fails the start of the
group: the others are stopped and the exit code is 1. The nodes stop one after another, so that
leaders move to those that still run; the voters that a majority needs stop last, together.
"""

import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from barnabas.config import ConfigError
from barnabas.log import DataDirectoryError
from barnabas.log_lines import set_up_logging
from barnabas.server.companion.companion_process import CompanionPlan, Companions
from barnabas.server.companion.companion_supervision import RestartPolicy
from barnabas.server.companion.supervised_process import ProcessPlan, SupervisedProcess
from barnabas.server.node.node_process import READY_LINE
from barnabas.server.node_failures import StartupError
from barnabas.server.node_group.group_directories import format_group
from barnabas.server.node_group.group_plan import GroupPlan, PlannedNode

logger = logging.getLogger(__name__)

_POLICY: Final = RestartPolicy(stop_grace_s=30.0)

Command = Callable[[PlannedNode, dict[str, str]], Sequence[str]]
"""The command line of a node with its properties."""


class NodeGroup:
    """The nodes as child processes.

    `on_ready` is awaited once all nodes serve clients, before the companions start; when it raises
    StartupError, ConfigError or OSError, the start of the group fails. `on_reload` renews the files
    that `reload` has the nodes read again; it raises ConfigError or OSError.
    """

    def __init__(
        self,
        plan: GroupPlan,
        command: Command,
        companions: Sequence[CompanionPlan] = (),
        *,
        is_pinned: bool = False,
        policy: RestartPolicy = _POLICY,
        on_ready: Callable[[], Awaitable[None]] | None = None,
        on_reload: Callable[[], None] | None = None,
    ) -> None:
        self._plan = plan
        self._companions = Companions(companions)
        self._on_ready = on_ready
        self._on_reload = on_reload
        self._serving: set[int] = set()
        self._preparing = trio.CancelScope()
        self._has_companions = False
        self._is_ready = {node.node_id: False for node in plan.nodes}
        self._all_ready = trio.Event()
        self._failed = trio.Event()
        self._failures: list[str] = []
        self._stops = {node.node_id: trio.Event() for node in plan.nodes}
        self._ended = {node.node_id: trio.Event() for node in plan.nodes}
        cpus = sorted(os.sched_getaffinity(0)) if is_pinned else []
        self._children = {
            node.node_id: SupervisedProcess(
                ProcessPlan(
                    kind="node",
                    name=f"node-{node.node_id}",
                    command=command(node, plan.properties(node)),
                    policy=policy,
                    cpu=cpus[index % len(cpus)] if cpus else None,
                    on_line=self._on_line(node.node_id),
                    on_exit=self._on_exit(node.node_id),
                )
            )
            for index, node in enumerate(plan.nodes)
        }

    async def run(self, stopping: trio.Event) -> list[str]:
        """Run the nodes until `stopping` is set or the start fails; return what failed."""
        async with trio.open_nursery() as nursery:
            for node in self._plan.nodes:
                nursery.start_soon(self._run_child, node.node_id)
            nursery.start_soon(self._run_companions)
            await _first_of(stopping, self._failed)
            await self._stop()
            nursery.cancel_scope.cancel()
        return self._failures

    async def _run_child(self, node_id: int) -> None:
        await self._children[node_id].run(self._stops[node_id])
        status = self._children[node_id].status
        # A node that SIGTERM ends had not begun: from its start on, it handles the signal.
        if status not in (0, -signal.SIGTERM):
            self._failures.append(f"node {node_id} ended with status {status}")
        self._ended[node_id].set()

    async def _run_companions(self) -> None:
        await self._all_ready.wait()
        logger.info("all nodes are ready nodes=%d", len(self._plan.nodes))
        with self._preparing:
            await self._prepare()
        if self._preparing.cancel_called:  # the group stops: no companion starts any longer
            return
        self._has_companions = True
        await self._companions.run(",".join(node.local_bootstrap for node in self._plan.nodes))

    async def _prepare(self) -> None:
        if self._on_ready is None:
            return
        try:
            await self._on_ready()
        except (StartupError, ConfigError, OSError) as error:
            self._failures.append(str(error))
            self._preparing.cancel()
            self._failed.set()

    def _on_line(self, node_id: int) -> Callable[[str], None]:
        def take(line: str) -> None:
            if line == READY_LINE:
                self._is_ready[node_id] = True
                self._serving.add(node_id)
                if all(self._is_ready.values()):
                    self._all_ready.set()

        return take

    def _on_exit(self, node_id: int) -> Callable[[int], None]:
        def take(status: int) -> None:
            self._serving.discard(node_id)
            if not self._is_ready[node_id]:
                self._failures.append(f"node {node_id} did not start (status {status})")
                self._failed.set()

        return take

    def reload(self) -> None:
        """Have the nodes read their certificates again; those that still start read them anyway."""
        try:
            if self._on_reload is not None:
                self._on_reload()
        except (ConfigError, OSError) as error:
            logger.error("cannot renew the certificates error=%s", error)
            return
        for node_id in self._serving:
            self._children[node_id].send_signal(signal.SIGHUP)

    async def _stop(self) -> None:
        """Stop the companions, then the nodes in order."""
        self._preparing.cancel()
        if self._has_companions:
            await self._companions.stop()
        for nodes in stop_order(self._plan):
            for node in nodes:
                self._stops[node.node_id].set()
            for node in nodes:
                await self._ended[node.node_id].wait()


def stop_order(plan: GroupPlan) -> list[list[PlannedNode]]:
    """Return the nodes in the order of their stop: each entry is stopped together.

    Brokers go first, then voters as long as a majority remains, then the rest.
    """
    brokers = [[node] for node in reversed(plan.nodes) if not node.is_controller]
    controllers = list(reversed(plan.controllers))
    spare = (len(controllers) - 1) // 2
    return [*brokers, *([node] for node in controllers[:spare]), controllers[spare:]]


def run_group(plan: GroupPlan, group: NodeGroup, *, level: str, form: str, now_ms: int) -> int:
    """Run the group until SIGTERM or SIGINT; return the exit code.

    A second signal ends the parent at once, and with it the nodes.
    """
    set_up_logging(level, form)
    try:
        for line in format_group(plan, now_ms):
            logger.warning("%s", line)
    except DataDirectoryError as error:
        print(f"barnabas: {error}", file=sys.stderr)
        return 1
    failures = trio.run(_run, group)
    for failure in failures:
        print(f"barnabas: {failure}", file=sys.stderr)
    return 1 if failures else 0


async def _run(group: NodeGroup) -> list[str]:
    stopping = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(_stop_on_signals, stopping)
        await nursery.start(_reload_on_signals, group)
        failures = await group.run(stopping)
        nursery.cancel_scope.cancel()
    return failures


async def _stop_on_signals(
    stopping: trio.Event, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            if stopping.is_set():
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            logger.info("stop requested signal=%s", signal.Signals(number).name)
            stopping.set()


async def _reload_on_signals(
    group: NodeGroup, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            logger.info("certificates are read again signal=SIGHUP")
            group.reload()


async def _first_of(*events: trio.Event) -> None:
    """Return when one of the events is set."""
    async with trio.open_nursery() as nursery:

        async def wait(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        for event in events:
            nursery.start_soon(wait, event)
