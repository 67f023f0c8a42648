"""Companion processes beside a node: started, watched, restarted, and stopped before the node.

A companion runs at lower priority and ends when the node ends in any way (`barnabas.parent_pipe`).
Its log lines go where the node's go.
"""

import logging
import os
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs
import trio

from barnabas import parent_pipe
from barnabas.server.companion.companion_supervision import (
    Action,
    CompanionSupervision,
    Effect,
    Report,
    RestartPolicy,
)

logger = logging.getLogger(__name__)

_NICENESS: Final = 10
_POLICY: Final = RestartPolicy()


@attrs.frozen
class CompanionPlan:
    """A companion to run: its name in log lines, and its command line for a bootstrap address."""

    name: str
    command: Callable[[str], Sequence[str]]


class Companions:
    """The companions of one node."""

    def __init__(self, plans: Sequence[CompanionPlan], policy: RestartPolicy = _POLICY) -> None:
        self._plans = plans
        self._policy = policy
        self._stopping = trio.Event()
        self._stopped = trio.Event()
        if not plans:
            self._stopped.set()

    async def run(self, bootstrap: str) -> None:
        """Keep the companions running until `stop`. No failure of a companion is raised."""
        async with trio.open_nursery() as nursery:
            for plan in self._plans:
                companion = _Companion(plan, bootstrap, self._policy)
                nursery.start_soon(companion.run, self._stopping)
        self._stopped.set()

    async def stop(self) -> None:
        """End the companions; return when they have ended."""
        self._stopping.set()
        await self._stopped.wait()


class _Companion:
    """One companion and its process, if it runs."""

    def __init__(self, plan: CompanionPlan, bootstrap: str, policy: RestartPolicy) -> None:
        self._name = plan.name
        self._command = list(plan.command(bootstrap))
        self._supervision = CompanionSupervision(policy)
        self._process: trio.Process | None = None

    async def run(self, stop: trio.Event) -> None:
        supervision = self._supervision
        is_stopping = False
        try:
            await self._carry_out(supervision.start(trio.current_time()))
            while not supervision.is_over:
                await self._wait(None if is_stopping else stop)
                now = trio.current_time()
                if self._process is not None and self._process.returncode is not None:
                    status = self._process.returncode
                    await self._close_pipe()
                    await self._carry_out(supervision.exited(status, now))
                if stop.is_set() and not is_stopping:
                    is_stopping = True
                    await self._carry_out(supervision.stop(now))
                await self._carry_out(supervision.wake(now))
        finally:
            if self._process is not None:  # cancelled, because the node failed
                self._process.kill()
                with trio.CancelScope(shield=True):
                    await self._process.wait()
                    await self._close_pipe()

    async def _wait(self, stop: trio.Event | None) -> None:
        """Return when the process has ended, when `stop` is set, or when it is time to wake."""
        with trio.move_on_at(self._supervision.wake_at):
            async with trio.open_nursery() as nursery:

                async def end_with(wait: Callable[[], Awaitable[object]]) -> None:
                    await wait()
                    nursery.cancel_scope.cancel()

                if self._process is not None:
                    nursery.start_soon(end_with, self._process.wait)
                if stop is not None:
                    nursery.start_soon(end_with, stop.wait)
                nursery.start_soon(trio.sleep_forever)

    async def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Report):
                level = logging.ERROR if effect.is_error else logging.INFO
                logger.log(level, "companion %s name=%s", effect.text, self._name)
            elif effect is Action.SPAWN:
                await self._spawn()
            elif self._process is not None:
                end = self._process.terminate if effect is Action.TERMINATE else self._process.kill
                end()

    async def _spawn(self) -> None:
        try:
            # Its own process group: Ctrl-C is for the node, which then ends its companions.
            process = await trio.lowlevel.open_process(
                self._command,
                stdin=subprocess.PIPE,
                process_group=0,
                env={**os.environ, **parent_pipe.ENVIRONMENT},
            )
        except OSError as error:
            reason = error.strerror or str(error)
            await self._carry_out(self._supervision.spawn_failed(reason, trio.current_time()))
            return
        self._process = process
        try:
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        except OSError as error:
            logger.debug("cannot lower the priority of pid=%d error=%s", process.pid, error)
        logger.info("companion started name=%s pid=%d", self._name, process.pid)

    async def _close_pipe(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            await process.stdin.aclose()
