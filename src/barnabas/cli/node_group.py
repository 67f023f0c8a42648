"""`barnabas serve --nodes N`: the table of the nodes, and the parent process that runs them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.node_options import address_of, properties_of
from barnabas.cli.terminal_output import print_table
from barnabas.config import NodeConfig

if TYPE_CHECKING:
    from barnabas.server.companion.companion_process import CompanionPlan
    from barnabas.server.node_group.group_plan import GroupPlan, PlannedNode
    from barnabas.server.node_group.secured_group import SecuredGroup

_DEFAULT_ADDRESS = "127.0.0.1:9092"


def serve_group(
    count: int,
    data: Path | None,
    listen: str | None,
    file: Path | None,
    pairs: tuple[str, ...],
    companions: Callable[[NodeConfig], Sequence[CompanionPlan]],
    *,
    is_pinned: bool,
    secured: SecuredGroup | None = None,
) -> int:
    """Run the nodes until SIGTERM or SIGINT; return the exit code. Raises ConfigError."""
    from barnabas.server.node_group.group_defaults import hint, topic_defaults
    from barnabas.server.node_group.group_plan import GroupListeners, GroupPlanError, plan_group
    from barnabas.server.node_group.group_process import NodeGroup, run_group
    from barnabas.server.node_group.group_voters import latest_voters

    host, port = address_of(listen or _DEFAULT_ADDRESS)
    directory = group_directory(data)
    given = {**(secured.properties() if secured else {}), **properties_of(pairs)}
    try:
        plan = plan_group(
            count,
            host=host,
            port=port,
            data=directory,
            given=given,
            has_file=file is not None,
            topic_defaults=topic_defaults(directory, count),
            voters=latest_voters(directory),
            listeners=secured.listeners
            if secured
            else GroupListeners.of({**_properties_in(file), **given}),
        )
    except GroupPlanError as error:
        raise CliError(str(error)) from None
    configs = [NodeConfig.load(file, plan.properties(node)) for node in plan.nodes]
    if secured is not None:
        secured.prepare_certificates(configs)
    _print_table(plan, None if file is not None else hint(count, plan.shared))

    def command(node: PlannedNode, properties: dict[str, str]) -> list[str]:
        line = [sys.executable, "-m", "barnabas", "serve"]
        line += ["--config", str(file)] if file is not None else []
        return line + [f"--set={name}={value}" for name, value in properties.items()]

    first = configs[0]
    return run_group(
        plan,
        NodeGroup(
            plan,
            command,
            companions(first),
            is_pinned=is_pinned,
            on_ready=secured and partial(secured.add_users, plan, configs),
            on_reload=secured and partial(secured.prepare_certificates, configs),
        ),
        level=first.get_str("barnabas.log.level"),
        form=first.get_str("barnabas.log.format"),
        now_ms=time.time_ns() // 1_000_000,
    )


def group_directory(data: Path | None) -> Path:
    """Return the directory that has those of the nodes."""
    return (data or Path("data")).absolute()


def _properties_in(file: Path | None) -> dict[str, str]:
    """Return the properties of the configuration file. Raises ConfigError."""
    if file is None:
        return {}
    from barnabas.config import properties_file

    return properties_file.read(file)


def _print_table(plan: GroupPlan, hint: str | None) -> None:
    print_table(
        ("NODE", "ROLES", "CLIENTS", "CONTROLLER", "DIRECTORY"),
        [
            (
                node.node_id,
                node.roles,
                node.bootstrap,
                node.controller_address if node.is_controller else None,
                str(node.directory),
            )
            for node in plan.nodes
        ],
    )
    if len(plan.nodes) > 1:
        click.echo(
            "All nodes are on this machine: replicas survive the loss of a process, not of the "
            "machine."
        )
    if hint is not None:
        click.echo(hint)
    sys.stdout.flush()
