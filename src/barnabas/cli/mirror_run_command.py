"""`barnabas mirror run`: the flows of a properties file of MirrorMaker 2."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.command_errors import CliError, complain
from barnabas.cli.mirror_hosting import FlowPlace, place_options
from barnabas.cli.terminal_output import counted, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipeline.mirror.mirrormaker.maker_file import MakerPlan

_UNUSABLE = 2
_CONNECTORS = ("CONNECTOR", "FROM", "TO")
_IGNORED = ("PROPERTY WITHOUT EFFECT", "REASON")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--clusters",
    multiple=True,
    metavar="ALIAS",
    help="Run only flows to this cluster; may be given several times.",
)
@click.option("--check", is_flag=True, help="Show the connectors and properties, and run nothing.")
@place_options
def run(*, place: FlowPlace, file: Path, clusters: tuple[str, ...], check: bool) -> int:
    """Run the flows of FILE, which connect-mirror-maker.sh takes.

    Properties without effect are shown with the reason, and those that are not supported are
    refused. Without --runner the flows run in this process until it is interrupted.
    """
    plan = _planned(file, clusters)
    _refuse(plan)
    print_table(
        _CONNECTORS,
        [
            (each["name"], each["source.cluster.alias"], each["target.cluster.alias"])
            for each in plan.connectors
        ],
    )
    if plan.ignored:
        print_table(_IGNORED, sorted(plan.ignored.items()))
    click.echo(f"{counted(len(plan.flows), 'flow')} enabled: {', '.join(plan.flows)}")
    if check:
        return 0
    place.check()
    return place.start_all([dict(each) for each in plan.connectors])


def _planned(file: Path, clusters: tuple[str, ...]) -> MakerPlan:
    """Return the connectors of a file. Raises CliError."""
    from barnabas.config import ConfigError, properties_file
    from barnabas.pipeline.mirror.mirrormaker.maker_file import MakerFileError, maker_plan

    try:
        return maker_plan(properties_file.read(file), clusters)
    except (ConfigError, MakerFileError) as error:
        raise CliError(f"{file}: {error}", _UNUSABLE) from None


def _refuse(plan: MakerPlan) -> None:
    """Raise CliError, after each value that cannot be used was named."""
    found = [error for each in plan.connectors for error in _errors(each)]
    for error in dict.fromkeys(found):
        complain(error)
    if found:
        raise CliError("nothing was started: correct these properties", _UNUSABLE)


def _errors(config: Mapping[str, str]) -> list[str]:
    from barnabas.pipeline.connect.connector_validation import ConnectorValidator
    from barnabas.pipeline.connect.plugin_registry import plugin_registry

    validator = ConnectorValidator(plugin_registry(), "", {})
    return validator.validate(config).errors
