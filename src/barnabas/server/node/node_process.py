"""A node as the process's main business: signals, log lines, exit codes."""

import gc
import logging
import signal
import sys

import trio

from barnabas.config import ConfigError, NodeConfig
from barnabas.log_lines import set_up_logging
from barnabas.server.node.node import Node
from barnabas.server.node.startup_checks import (
    DisksLostError,
    StartupError,
    first_error,
    raise_open_files_limit,
    refuse_unknown_systems,
)

logger = logging.getLogger(__name__)


def run_process(config: NodeConfig) -> int:
    """Run a node until SIGTERM or SIGINT; returns the exit code.

    What prevents a start is told in one line on stderr (exit code 1). A second signal ends the
    process at once, as a kill would.
    """
    status = 0
    try:
        refuse_unknown_systems()
        set_up_logging(config.get("barnabas.log.level"), config.get("barnabas.log.format"))
        for warning in config.warnings:
            logger.warning("%s", warning)
        raise_open_files_limit()
        trio.run(_run, Node(config))
    except* (StartupError, ConfigError, DisksLostError) as group:
        print(f"barnabas: {first_error(group)}", file=sys.stderr)
        status = 1
    except* Exception:
        if not status:  # otherwise it follows from what was told
            logger.exception("the node failed")
        status = 1
    return status


async def _run(node: Node) -> None:
    async with trio.open_nursery() as signals:
        await signals.start(_stop_on_signals, node)
        async with trio.open_nursery() as nursery:
            await nursery.start(node.run)
            gc.freeze()  # what the start made lives on: the collector need not look at it
        signals.cancel_scope.cancel()


async def _stop_on_signals(
    node: Node, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            if node.is_stopping:
                # The handlers are the system's again once the receiver is closed.
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            logger.info("asked to stop signal=%s", signal.Signals(number).name)
            node.stop()
