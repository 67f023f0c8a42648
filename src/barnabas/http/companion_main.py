"""A companion as the process's main business: log lines, signals, exit codes, the parent's end."""

import gc
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from barnabas.config import ConfigError
from barnabas.http.http_host import HttpStartError
from barnabas.http.optional_packages import MissingPackageError
from barnabas.log_lines import set_up_logging
from barnabas.parent_pipe import has_parent_pipe, wait_parent_end

logger = logging.getLogger(__name__)

FAILED: Final = 1
_GC_THRESHOLDS: Final = (20_000, 20, 50)
"""A request makes hundreds of short-lived objects, most of which need no collector."""

UNUSABLE: Final = 2
"""The exit code of a companion that cannot run with its configuration."""

Stop = Callable[[], Awaitable[None]]
"""Returns when the process must stop."""


def run_companion(
    serve: Callable[[Stop], Awaitable[None]],
    *,
    expected: tuple[type[Exception], ...] = (),
    log_level: str = "info",
    log_form: str = "text",
) -> int:
    """Run `serve` until SIGTERM, SIGINT or the parent's end; return the exit code.

    A failure to start is one line on stderr: exit code 2 for settings that cannot work and for
    missing packages, 1 for what may pass, such as a taken port or an `expected` exception.
    """
    set_up_logging(log_level, log_form)
    gc.set_threshold(*_GC_THRESHOLDS)
    status = 0
    try:
        trio.run(_run, serve)
    except* (ConfigError, MissingPackageError) as group:
        status = _report(group, UNUSABLE)
    except* (HttpStartError, *expected) as group:
        status = _report(group, FAILED)
    except* Exception:
        logger.exception("the companion failed")
        status = FAILED
    return status


def _report(group: BaseExceptionGroup[Exception], status: int) -> int:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    print(f"barnabas: {' '.join(str(error).split())}", file=sys.stderr)
    return status


async def _run(serve: Callable[[Stop], Awaitable[None]]) -> None:
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(_stop_on_signals, stop)
        if has_parent_pipe():
            nursery.start_soon(_stop_with_parent, stop)
        await serve(stop.wait)
        nursery.cancel_scope.cancel()


async def _stop_on_signals(
    stop: trio.Event, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            if stop.is_set():  # a second signal ends the process at once
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            logger.info("stop requested signal=%s", signal.Signals(number).name)
            stop.set()


async def _stop_with_parent(stop: trio.Event) -> None:
    await wait_parent_end()
    if not stop.is_set():
        logger.info("stopping with the parent process")
        stop.set()
