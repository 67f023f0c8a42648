"""`barnabas serve`: run one node with the options and a server.properties file."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.node_options import address_of, data_option, properties_of, set_option
from barnabas.config import ConfigError, Listener, NodeConfig

if TYPE_CHECKING:
    from barnabas.server.companion.companion_process import CompanionPlan
    from barnabas.server.node.secured_files import SecuredFiles

SECURED_MARKS: Final = ("admin.properties", "node.pem")
"""The files that a node with --secure has in its directory."""

_REGISTRY: Final = "ksql.schema.registry.url"
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "[::]")
_STOP_GRACE_S = {"pipelines": 60.0}
"""A runner ends the transactions of its jobs (20 s at most), then Spark's JVM (30 s at most)."""


@click.command()
@data_option
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address for clients; port 0 is any free port. [default: 127.0.0.1:9092]",
)
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A server.properties file. [default: the values of a single node]",
)
@set_option
@click.option(
    "--nodes",
    type=int,
    metavar="N",
    help="Run N nodes as processes: clients on PORT+i, controllers on PORT+10000+i, and with "
    "--secure brokers on PORT+20000+i.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Serve with TLS, users and ACLs; a new administrator's password is printed.",
)
@click.option("--pin", is_flag=True, help="With --nodes, bind each node to a core.")
@click.option("--registry", is_flag=True, help="Run a schema registry beside the node.")
@click.option(
    "--registry-listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8081",
    show_default=True,
    help="Where clients of the schema registry connect.",
)
@click.option(
    "--registry-client-config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Properties of the schema registry's Kafka client, where the node wants TLS or SASL.",
)
@click.option("--pipelines", is_flag=True, help="Run pipelines (Connect on Spark) beside the node.")
@click.option(
    "--pipelines-listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8083",
    show_default=True,
    help="Where clients of Connect's REST API connect.",
)
@click.option(
    "--pipelines-config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Properties of the runner, such as connect-distributed.properties.",
)
@click.option("--sql", is_flag=True, help="Run pipelines with SQL beside the node.")
@click.option(
    "--sql-listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8088",
    show_default=True,
    help="Where clients of ksqlDB's REST API connect.",
)
def serve(
    data: Path | None,
    listen: str | None,
    file: Path | None,
    pairs: tuple[str, ...],
    nodes: int | None,
    registry: bool,
    registry_listen: str,
    registry_client_config: Path | None,
    pipelines: bool,
    pipelines_listen: str,
    pipelines_config: Path | None,
    sql: bool,
    sql_listen: str,
    *,
    pin: bool,
    secure: bool,
) -> int:
    """Run a node until it is interrupted, or several nodes of one cluster."""
    # Imports create thousands of long-lived objects: fewer collections save a tenth of the start.
    gc.set_threshold(20_000, 20, 50)
    if pin and nodes is None:
        raise click.UsageError("--pin needs --nodes.")
    wanted: list[_Companion] = []
    if registry:
        wanted.append(
            _Companion("registry", registry_listen, "--client-config", registry_client_config)
        )
    try:
        if pipelines or sql:
            more = ("--sql", "--sql-listen", sql_listen) if sql else ()
            if sql and registry and not secure:
                more += registry_option(registry_listen, pipelines_config)
            wanted.append(
                _Companion("pipelines", pipelines_listen, "--config", pipelines_config, more)
            )
        if secure:
            _check_secure(file)
            if nodes is not None:
                return _serve_secure_group(nodes, data, listen, pairs, wanted, is_pinned=pin)
            return _serve_secure(data, listen, pairs, wanted)
        commands = {each.name: _options(each) for each in wanted}
        companions = partial(_companions, commands)
        if nodes is not None:
            from barnabas.cli.node_group import group_directory, serve_group

            if file is None:
                _refuse_open(group_directory(data))
            return serve_group(nodes, data, listen, file, pairs, companions, is_pinned=pin)
        config = configuration(data, listen, file, pairs)
    except ConfigError as error:
        raise CliError(error.message) from None
    if file is None:
        _refuse_open(config.log_dirs[0])
    from barnabas.server.node.node_process import run_process

    return run_process(config, companions(config))


class _Companion(NamedTuple):
    """A companion as the options request it, with the option that its properties' file has."""

    name: str
    listen: str
    file_option: str
    file: Path | None
    more: tuple[str, ...] = ()
    """Options that only this companion has."""


def _check_secure(file: Path | None) -> None:
    """Raise an error where --secure cannot be used, or not with other options."""
    if file is not None:
        raise click.UsageError(
            "--secure decides the properties of security: give other ones with --set, or write all "
            "of them to the file (docs/security.md, docs/node-security.md)."
        )
    if find_spec("cryptography") is None:
        raise CliError("--secure needs the package cryptography: pip install 'barnabas[tls]'")


def _serve_secure(
    data: Path | None, listen: str | None, pairs: tuple[str, ...], wanted: Sequence[_Companion]
) -> int:
    """Run a secured node and its companions. Raises ConfigError."""
    from barnabas.cli.secure_serve import secured
    from barnabas.server.node.node_process import run_process

    config, node = secured(data, listen, pairs, {each.name: each.file for each in wanted})
    commands = _secured_commands(node.files, wanted)
    return run_process(config, _companions(commands, config), [node.prepare])


def _serve_secure_group(
    nodes: int,
    data: Path | None,
    listen: str | None,
    pairs: tuple[str, ...],
    wanted: Sequence[_Companion],
    *,
    is_pinned: bool,
) -> int:
    """Run a secured group and its companions. Raises ConfigError."""
    from barnabas.cli.node_group import group_directory, serve_group
    from barnabas.cli.secure_serve import secured_group

    group = secured_group(group_directory(data), pairs, {each.name: each.file for each in wanted})
    companions = partial(_companions, _secured_commands(group.files, wanted))
    return serve_group(
        nodes, data, listen, None, pairs, companions, is_pinned=is_pinned, secured=group
    )


def _secured_commands(files: SecuredFiles, wanted: Sequence[_Companion]) -> dict[str, list[str]]:
    """Return the options of the companions' commands."""
    from barnabas.cli.secure_serve import companion_options

    return {
        each.name: [
            *("--listen", each.listen, *each.more),
            *companion_options(files, each.name, each.file_option),
        ]
        for each in wanted
    }


def _refuse_open(directory: Path) -> None:
    """Raise CliError when the data is that of nodes that were secured, and these are not."""
    if all((directory / name).exists() for name in SECURED_MARKS):
        marks = " and ".join(SECURED_MARKS)
        raise CliError(
            f"{directory} is the directory of a node that was started with --secure: add --secure, "
            f"or remove {marks} from it to serve without"
        )


def registry_option(listen: str, file: Path | None) -> tuple[str, ...]:
    """Return the option that names the registry beside the node to SQL, unless the file names one.

    A registry on any free port has no address yet. Raises ConfigError for a file that is wrong.
    """
    from barnabas.config import properties_file

    host, _, port = listen.rpartition(":")
    if port == "0" or _REGISTRY in ({} if file is None else properties_file.read(file)):
        return ()
    local = "127.0.0.1" if host in _EVERY_ADDRESS else host
    return "--set", f"{_REGISTRY}=http://{local}:{port}"


def _options(companion: _Companion) -> list[str]:
    """Return the options of a companion's command."""
    options = ["--listen", companion.listen, *companion.more]
    if companion.file is None:
        return options
    return [*options, companion.file_option, str(companion.file)]


def _companions(commands: dict[str, list[str]], config: NodeConfig) -> list[CompanionPlan]:
    """Return the processes to run beside the node, from their commands and options."""
    if not commands:
        return []
    from barnabas.server.companion.companion_process import CompanionPlan

    level, form = config.get("barnabas.log.level"), config.get("barnabas.log.format")
    logs = ["--log-level", level, "--log-format", form]
    return [
        CompanionPlan(
            name,
            partial(companion_command_line, name, [*options, *logs]),
            _STOP_GRACE_S.get(name),
        )
        for name, options in commands.items()
    ]


def companion_command_line(name: str, options: list[str], bootstrap: str) -> list[str]:
    """Return the command line of a companion for the node at an address."""
    return [sys.executable, "-m", "barnabas", name, "--bootstrap", bootstrap, *options]


def configuration(
    data: Path | None, listen: str | None, file: Path | None, pairs: tuple[str, ...]
) -> NodeConfig:
    """Return the configuration: the options over the file. Raises ConfigError."""
    overrides = properties_of(pairs)
    if data is not None:
        overrides["log.dirs"] = str(data)
    if listen is None:
        return NodeConfig.load(file, overrides)
    config = NodeConfig.read(file, overrides)
    own = file is None and "listeners" not in overrides
    overrides["listeners"] = ",".join(map(str, _moved(config, *address_of(listen), own=own)))
    return NodeConfig.load(file, overrides)


def _moved(config: NodeConfig, host: str, port: int, *, own: bool) -> list[Listener]:
    """Return the listeners with the first client listener at a new address.

    With `own`, the controller's listener moves to the next port, or to any free port for port 0.
    """
    if not config.broker_listeners:
        raise ConfigError("--listen needs a listener for clients: process.roles has no broker")
    first = config.broker_listeners[0]
    near = port + 1 if 0 < port < 65535 else 0
    moved: list[Listener] = []
    for listener in config.listeners:
        if listener is first:
            moved.append(listener._replace(host=host, port=port))
        elif own:
            moved.append(listener._replace(port=near))
        else:
            moved.append(listener)
    return moved
