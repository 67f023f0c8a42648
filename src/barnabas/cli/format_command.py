"""`barnabas format`: format the log directories of a node, as `kafka-storage format` does."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.node_options import data_option, set_option
from barnabas.cli.serve_command import configuration
from barnabas.config import ConfigError, NodeConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.cluster.quorum.voters import VoterSet
    from barnabas.protocol.messages_base import Message


@click.command("format")
@data_option
@click.option(
    "--config",
    "-c",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The server.properties file of the node. [default: the values of a single node]",
)
@set_option
@click.option("--node-id", type=int, help="The node's number (node.id).")
@click.option(
    "--cluster-id",
    "-t",
    help="The cluster's id, the same on all nodes. [default with --standalone: a random one]",
)
@click.option(
    "--standalone", "-s", is_flag=True, help="Start a quorum whose only voter is this node."
)
@click.option(
    "--initial-controllers",
    "-I",
    metavar="ID@HOST:PORT:DIRECTORY_ID,...",
    help="Start a quorum of these voters; give the same list to each of them.",
)
@click.option(
    "--no-initial-controllers",
    "-N",
    is_flag=True,
    help="Join a quorum that exists (controller.quorum.bootstrap.servers).",
)
@click.option(
    "--release-version",
    "-r",
    metavar="RELEASE",
    help="The metadata.version of the cluster, as 4.3 or 4.3-IV0. [default: the latest]",
)
@click.option(
    "--feature",
    "-f",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="The level of a feature of the cluster; repeatable.",
)
@click.option(
    "--add-scram",
    "-S",
    "credentials",
    multiple=True,
    metavar="MECHANISM=[name=NAME,password=PASSWORD]",
    help="A user's SCRAM credential for SCRAM-SHA-256 or SCRAM-SHA-512; repeatable. The list may "
    "also have salt, iterations, and saltedpassword in the password's place (base64).",
)
@click.option(
    "--ignore-formatted", "-g", is_flag=True, help="Leave directories that are formatted as is."
)
@click.option("--random-uuid", is_flag=True, help="Print a new id of a cluster or directory.")
def format_(
    data: Path | None,
    file: Path | None,
    pairs: tuple[str, ...],
    node_id: int | None,
    cluster_id: str | None,
    initial_controllers: str | None,
    release_version: str | None,
    features: tuple[str, ...],
    credentials: tuple[str, ...],
    *,
    standalone: bool,
    no_initial_controllers: bool,
    ignore_formatted: bool,
    random_uuid: bool,
) -> None:
    """Format the log directories of a node, before its first start in a cluster.

    A single node formats its directories itself.
    """
    from barnabas.cluster.metadata.releases import (
        UnknownLevelError,
        levels_to_format,
        parse_feature,
    )
    from barnabas.log import DataDirectoryError
    from barnabas.protocol.types import Uuid
    from barnabas.server.node.storage_formatting import format_storage

    if random_uuid:
        click.echo(str(Uuid.random()))
        return
    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise click.UsageError(
            "--standalone, --initial-controllers and --no-initial-controllers exclude each other."
        )
    try:
        if node_id is not None:
            pairs = (*pairs, f"node.id={node_id}")
        config = configuration(data, None, file, pairs)
        voters = _voters(config, initial_controllers, standalone, no_initial_controllers)
        given = dict(map(parse_feature, features))
        _check_kraft_version(config, given)
        levels = levels_to_format(release_version, given)
        for line in format_storage(
            config,
            cluster_id=cluster_id or _new_cluster_id(is_allowed=standalone),
            voters=voters,
            now_ms=time.time_ns() // 1_000_000,
            features=levels,
            credentials=_credentials(credentials, levels),
            ignore_formatted=ignore_formatted,
        ):
            click.echo(line)
    except ConfigError as error:
        raise CliError(error.message) from None
    except (UnknownLevelError, DataDirectoryError) as error:
        raise CliError(str(error)) from None


def _new_cluster_id(*, is_allowed: bool) -> str:
    """Return a random id of a cluster, and print it."""
    from barnabas.protocol.types import Uuid

    if not is_allowed:
        raise click.UsageError("--cluster-id is missing.")
    cluster_id = str(Uuid.random())
    click.echo(f"Using cluster id {cluster_id}.")
    return cluster_id


def _credentials(texts: tuple[str, ...], levels: Mapping[str, int]) -> list[Message]:
    """Return the records of the SCRAM credentials that options state."""
    from barnabas.cluster.metadata.feature_levels import METADATA_VERSION, SCRAM_SINCE
    from barnabas.security.scram_arguments import ScramArgumentError, parse_scram_argument

    if texts and levels[METADATA_VERSION] < SCRAM_SINCE:
        raise CliError("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    try:
        return [parse_scram_argument(text, lambda: secrets.token_bytes(32)) for text in texts]
    except ScramArgumentError as error:
        raise CliError(f"Invalid value for --add-scram: {error}") from None


def _voters(
    config: NodeConfig, initial_controllers: str | None, standalone: bool, none: bool
) -> VoterSet | None:
    """Return the initial voters that the options state, after Kafka's checks."""
    from barnabas.cluster.quorum.storage_format import (
        InitialControllersError,
        parse_initial_controllers,
    )
    from barnabas.server.node.storage_formatting import standalone_voter

    if config.get("controller.quorum.voters"):
        if standalone or initial_controllers is not None:
            raise CliError(
                "You cannot specify controller.quorum.voters and format the node with "
                "--initial-controllers or --standalone. If you want to use dynamic quorum, please "
                "remove controller.quorum.voters and specify controller.quorum.bootstrap.servers "
                "instead."
            )
        return None
    if standalone:
        return standalone_voter(config)
    if initial_controllers is not None:
        try:
            return parse_initial_controllers(
                initial_controllers, config.controller_listener_names[0]
            )
        except InitialControllersError as error:
            raise CliError(str(error)) from None
    if config.is_controller and not none:
        raise CliError(
            "Because controller.quorum.voters is not set on this controller, you must specify one "
            "of the following: --standalone, --initial-controllers, or --no-initial-controllers."
        )
    return None


def _check_kraft_version(config: NodeConfig, features: dict[str, int]) -> None:
    """Refuse a kraft.version that the quorum's kind does not have: static 0, dynamic 1."""
    level = features.get("kraft.version")
    is_static = bool(config.get("controller.quorum.voters"))
    if level == 0 and not is_static:
        raise CliError(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the "
            "flags --standalone, --initial-controllers, or --no-initial-controllers is used. For "
            "dynamic controllers support, try removing the --feature flag for kraft.version."
        )
    if level and is_static:
        raise CliError(
            f"Cannot set kraft.version to {level} unless one of the flags --standalone, "
            "--initial-controllers, or --no-initial-controllers is used."
        )
