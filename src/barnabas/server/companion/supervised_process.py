"""A child process that is started, watched, restarted after a delay, and stopped.

The child ends when its parent ends in any way (`barnabas.parent_pipe`). Its log lines go where the
parent's go.
"""

import logging
import os
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import attrs
import trio

from barnabas import parent_pipe
from barnabas.server.companion.companion_supervision import (
    Action,
    CompanionSupervision,
    Effect,
    Report,
    RestartPolicy,
    State,
)

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class ProcessPlan:
    """A process to run: its kind and name in log lines, its command line, and how it runs.

    `cpu` is the core to run on. `on_line` gets each line of standard output, `on_exit` the status
    of a process that ended without a request.
    """

    kind: str
    name: str
    command: Sequence[str]
    policy: RestartPolicy
    niceness: int = 0
    cpu: int | None = None
    on_line: Callable[[str], None] | None = None
    on_exit: Callable[[int], None] | None = None


class SupervisedProcess:
    """One child process, if it runs.

    `status` is the last exit code; after a stop, that of the stopped process, or 0 when
    none ran.
    """

    def __init__(self, plan: ProcessPlan) -> None:
        self._plan = plan
        self._supervision = CompanionSupervision(plan.policy)
        self._process: trio.Process | None = None
        self.status = 0

    async def run(self, stop: trio.Event) -> None:
        """Keep the process running until `stop` is set. No failure of it is raised."""
        async with trio.open_nursery() as nursery:
            await self._supervise(stop, nursery)
            nursery.cancel_scope.cancel()

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, if one runs."""
        if self._process is not None:
            self._process.send_signal(number)

    async def _supervise(self, stop: trio.Event, nursery: trio.Nursery) -> None:
        supervision = self._supervision
        is_stopping = False
        try:
            await self._carry_out(supervision.start(trio.current_time()), nursery)
            while not supervision.is_over:
                await self._wait(None if is_stopping else stop)
                now = trio.current_time()
                if self._process is not None and self._process.returncode is not None:
                    await self._ended(self._process.returncode, now, nursery)
                if stop.is_set() and not is_stopping:
                    is_stopping, self.status = True, 0
                    await self._carry_out(supervision.stop(now), nursery)
                await self._carry_out(supervision.wake(now), nursery)
        finally:
            if self._process is not None:  # cancelled, because the parent failed
                self._process.kill()
                with trio.CancelScope(shield=True):
                    await self._process.wait()
                    await self._close_pipe()

    async def _ended(self, status: int, now: float, nursery: trio.Nursery) -> None:
        self.status = status
        await self._close_pipe()
        await self._carry_out(self._supervision.exited(status, now), nursery)
        if self._plan.on_exit is not None and self._supervision.state is not State.STOPPED:
            self._plan.on_exit(status)

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

    async def _carry_out(self, effects: list[Effect], nursery: trio.Nursery) -> None:
        plan = self._plan
        for effect in effects:
            if isinstance(effect, Report):
                level = logging.ERROR if effect.is_error else logging.INFO
                logger.log(level, "%s %s name=%s", plan.kind, effect.text, plan.name)
            elif effect is Action.SPAWN:
                await self._spawn(nursery)
            elif self._process is not None:
                end = self._process.terminate if effect is Action.TERMINATE else self._process.kill
                end()

    async def _spawn(self, nursery: trio.Nursery) -> None:
        plan = self._plan
        try:
            # Its own process group: Ctrl-C is for the parent, which then ends its children.
            process = await trio.lowlevel.open_process(
                list(plan.command),
                stdin=subprocess.PIPE,
                stdout=None if plan.on_line is None else subprocess.PIPE,
                process_group=0,
                env={**os.environ, **parent_pipe.ENVIRONMENT},
            )
        except OSError as error:
            reason = error.strerror or str(error)
            effects = self._supervision.spawn_failed(reason, trio.current_time())
            await self._carry_out(effects, nursery)
            return
        self._process = process
        self._place(process.pid)
        logger.info("%s started name=%s pid=%d", plan.kind, plan.name, process.pid)
        if process.stdout is not None and plan.on_line is not None:
            nursery.start_soon(_read_lines, process.stdout, plan.on_line)

    def _place(self, pid: int) -> None:
        """Set the priority and the core of the process."""
        plan = self._plan
        try:
            if plan.niceness:
                os.setpriority(os.PRIO_PROCESS, pid, plan.niceness)
            if plan.cpu is not None:
                os.sched_setaffinity(pid, {plan.cpu})
        except OSError as error:
            logger.debug("cannot pin the process to a core pid=%d error=%s", pid, error)

    async def _close_pipe(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            await process.stdin.aclose()


async def _read_lines(stream: trio.abc.ReceiveStream, on_line: Callable[[str], None]) -> None:
    """Pass each line to `on_line`, until the process closes its output."""
    text = ""
    async with stream:
        with suppress(trio.BrokenResourceError):
            while piece := await stream.receive_some():
                *lines, text = (text + piece.decode(errors="replace")).split("\n")
                for line in lines:
                    on_line(line)
