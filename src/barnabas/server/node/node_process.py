"""The process of a node: signals, log lines, exit codes."""

import gc
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Final

import trio

from barnabas.config import ConfigError, NodeConfig
from barnabas.log_lines import set_up_logging
from barnabas.parent_pipe import has_parent_pipe, wait_parent_end
from barnabas.server.companion.companion_process import CompanionPlan, Companions
from barnabas.server.node.node import Node, Preparation
from barnabas.server.node.startup_checks import (
    first_error,
    raise_open_files_limit,
    refuse_unknown_systems,
)
from barnabas.server.node_failures import DisksLostError, StartupError

logger = logging.getLogger(__name__)

READY_LINE: Final = "ready"
"""What a node writes to standard output for the parent that started it."""

# The time for a clean stop after the parent has ended.
_ORPHAN_GRACE_S: Final = 10.0
_WILDCARDS: Final = ("", "0.0.0.0", "::")


def run_process(
    config: NodeConfig,
    companions: Sequence[CompanionPlan] = (),
    preparations: Sequence[Preparation] = (),
) -> int:
    """Run a node, and companions beside it, until SIGTERM or SIGINT; return the exit code.

    A failure to start is one line on stderr (exit code 1). A second signal ends the process at
    once, as a kill would.
    """
    status = 0
    try:
        refuse_unknown_systems()
        name = f"node-{config.node_id}" if has_parent_pipe() else ""
        set_up_logging(config.get("barnabas.log.level"), config.get("barnabas.log.format"), name)
        logger.info("using log.dirs=%s", ",".join(str(path.absolute()) for path in config.log_dirs))
        for warning in config.warnings:
            logger.warning("%s", warning)
        raise_open_files_limit()
        node = Node(config, preparations=preparations)
        trio.run(_run, node, Companions(companions))
    except* (StartupError, ConfigError, DisksLostError) as group:
        print(f"barnabas: {first_error(group)}", file=sys.stderr)
        status = 1
    except* Exception:
        if not status:  # otherwise it follows from the reported error
            logger.exception("the node failed")
        status = 1
    return status


async def _run(node: Node, companions: Companions) -> None:
    async with trio.open_nursery() as signals:
        await signals.start(_stop_on_signals, node, companions)
        signals.start_soon(_reload_on_signals, node)
        if has_parent_pipe():
            signals.start_soon(_stop_with_parent, node, companions)
        async with trio.open_nursery() as nursery:
            await nursery.start(_serve, node, companions)
            gc.freeze()  # the collector does not have to scan the objects of the start
            if has_parent_pipe() and node.has_started:
                print(READY_LINE, flush=True)
            nursery.start_soon(companions.run, bootstrap_address(node))
        signals.cancel_scope.cancel()


async def _serve(
    node: Node,
    companions: Companions,
    task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
) -> None:
    await node.run(task_status)
    await companions.stop()


async def _stop_on_signals(
    node: Node,
    companions: Companions,
    task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
) -> None:
    is_stopping = False
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for number in signals:
                if is_stopping:
                    # The system's handlers are restored once the receiver is closed.
                    signal.signal(number, signal.SIG_DFL)
                    signal.raise_signal(number)
                logger.info("stop requested signal=%s", signal.Signals(number).name)
                is_stopping = True
                nursery.start_soon(_stop, node, companions)


async def _reload_on_signals(node: Node) -> None:
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _ in signals:
            logger.info("certificates are read again signal=SIGHUP")
            node.reload_certificates()


async def _stop_with_parent(node: Node, companions: Companions) -> None:
    """Stop the node when the process that started it has ended; end it if that takes too long."""
    await wait_parent_end()
    logger.warning("the parent process has ended, stopping")
    await _stop(node, companions)
    await trio.sleep(_ORPHAN_GRACE_S)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)


async def _stop(node: Node, companions: Companions) -> None:
    """Stop companions first: they are clients of the node."""
    await companions.stop()
    node.stop()


def bootstrap_address(node: Node) -> str:
    """Return the address of the node for clients on this machine, without TLS or SASL if any."""
    endpoints = node.config.broker_listeners or node.config.listeners
    plain = [each for each in endpoints if each.security_protocol == "PLAINTEXT"]
    endpoint = (plain or endpoints)[0]
    host = "127.0.0.1" if endpoint.host in _WILDCARDS else endpoint.host
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{node.bound_port(endpoint.name)}"
